def test_vjp_wants_results_that_have_a_derivative() -> None:
    x = torch.randn(3)
    with pytest.raises(RuntimeError, match="must be floating-point or complex Tensors"):
        torch.func.vjp(lambda t: tuple(t.max(0)), x)


def test_vjp_wants_results_that_have_a_derivative() -> None:
    with pytest.raises(RuntimeError, match="must be floating-point or complex Tensors"):
        torch.func.vjp(lambda t: tuple(t.max(0)), torch.randn(3))
