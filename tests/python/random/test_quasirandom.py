"""Sobol sequences: PyTorch's points, evenly spread, and a state that can be moved."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.quasirandom import SobolEngine


def test_points_are_those_of_pytorch():
    engine = SobolEngine(3)
    assert engine.draw(4).tolist() == [
        [0.0, 0.0, 0.0],
        [0.5, 0.5, 0.5],
        [0.75, 0.25, 0.25],
        [0.25, 0.75, 0.75],
    ]
    assert engine.draw_base2(2)[0].tolist() == [0.375, 0.375, 0.625]
    assert engine.fast_forward(3).draw(1).tolist() == [[0.4375, 0.5625, 0.1875]]
    assert repr(engine) == "SobolEngine(dimension=3)"
    scrambled = SobolEngine(3, scramble=True, seed=5)
    assert scrambled.shift.tolist() == [515708045, 125905764, 133132919]
    assert scrambled.sobolstate[2, :3].tolist() == [628044183, 825514845, 436673491]
    want = torch.tensor([[0.4803, 0.1173, 0.1240], [0.9115, 0.8687, 0.5391]])
    torch.testing.assert_close(scrambled.draw(2), want, atol=5e-5, rtol=0)
    assert repr(scrambled) == "SobolEngine(dimension=3, scramble=True, seed=5)"


def test_the_last_dimension_has_its_directions():
    state = SobolEngine(SobolEngine.MAXDIM).sobolstate
    assert state.shape == (21201, 30)
    assert state[-1, :3].tolist() == [536870912, 268435456, 939524096]
    # The k-th direction ends at its k-th bit.
    assert (state & (1 << torch.arange(29, -1, -1)) != 0).all()


@pytest.mark.parametrize("scramble", [False, True])
def test_points_fill_the_cube_evenly(scramble):
    points = SobolEngine(5, scramble, seed=1).draw_base2(8)
    # Every interval of length 1/256 has one point in each dimension.
    cells = (points * 256).long().sort(dim=0).values
    assert torch.equal(cells, torch.arange(256).unsqueeze(1).expand(256, 5))


def test_the_state_moves_and_returns():
    whole = SobolEngine(4, scramble=True, seed=2).draw(20)
    engine = SobolEngine(4, scramble=True, seed=2)
    parts = torch.cat([engine.draw(1), engine.draw(6), engine.draw(0), engine.draw(13)])
    assert torch.equal(parts, whole) and engine.num_generated == 20
    assert torch.equal(engine.reset().draw(3), whole[:3])
    assert torch.equal(engine.fast_forward(7).draw(2), whole[10:12])
    out = torch.empty(0, dtype=torch.float64)
    assert engine.reset().draw(5, out=out, dtype=torch.float64) is out and out.shape == (5, 4)
    torch.manual_seed(0)
    first = SobolEngine(2, scramble=True).draw(2)
    torch.manual_seed(0)
    assert torch.equal(SobolEngine(2, scramble=True).draw(2), first)


def test_what_cannot_be_drawn_is_refused():
    for dimension in (0, 21202):
        with pytest.raises(ValueError, match="range of dimensionality"):
            SobolEngine(dimension)
    with pytest.raises(ValueError, match="at most 1073741824 points"):
        SobolEngine(2).draw(2**31)
    engine = SobolEngine(2)
    engine.draw(3)
    with pytest.raises(ValueError, match="3 points have been"):
        engine.draw_base2(3)
    with pytest.raises(NotImplementedError, match="_sobol_engine_draw"):
        SobolEngine(2).draw(2, dtype=torch.int64)
