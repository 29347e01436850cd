// Layers beyond what tests/python/nn/test_cpp_layers.py asks of all: files, packing, utilities.
#include <torch/torch.h>

#include <cmath>
#include <sstream>

#include "tests/cpp/support.h"

namespace {

using torch::Tensor;

TEST(Layers, SaveAndLoadTheirTensors) {
  torch::nn::Sequential net(torch::nn::Conv2d(1, 2, 3), torch::nn::BatchNorm2d(2),
                            torch::nn::ReLU());
  torch::nn::Sequential other(torch::nn::Conv2d(1, 2, 3), torch::nn::BatchNorm2d(2),
                              torch::nn::ReLU());
  std::stringstream file;
  torch::save(net, file);
  torch::load(other, file);
  for (const auto& item : net->named_parameters())
    EXPECT_TRUE(item->equal(other->named_parameters()[item.key()]));
  for (const auto& item : other->named_parameters()) EXPECT_TRUE(item->requires_grad());
  // A state_dict as Python's: under dotted names, without wanting gradients.
  const std::string bytes = file.str();
  const auto state = torch::pickle_load({bytes.begin(), bytes.end()}).toGenericDict();
  EXPECT_FALSE(state.at("0.weight").toTensor().requires_grad());
  torch::nn::Linear wrong(2, 2);
  file.seekg(0);
  EXPECT_ERROR(torch::load(wrong, file), c10::Error, "No such serialized tensor 'weight'");
}

TEST(Layers, RecurrentLayersTakePackedSequences) {
  namespace rnn = torch::nn::utils::rnn;
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(3, 4).num_layers(2).bidirectional(true));
  const std::vector<Tensor> sequences{torch::randn({2, 3}), torch::randn({5, 3})};
  const auto [output, states] =
      lstm->forward_with_packed_input(rnn::pack_sequence(sequences, false));
  const auto [padded, lengths] = rnn::pad_packed_sequence(output, true);
  EXPECT_EQ(lengths[0].item<int64_t>(), 2);
  const auto [alone, its_states] = lstm->forward(sequences[0]);
  EXPECT_TRUE(padded[0].narrow(0, 0, 2).allclose(alone, 1e-5, 1e-6));
  EXPECT_TRUE(std::get<1>(states).select(1, 0).allclose(std::get<1>(its_states), 1e-5, 1e-6));
}

TEST(Layers, EmbeddingsMayBeGiven) {
  const Tensor table = torch::ones({3, 2});
  const auto given = torch::nn::Embedding::from_pretrained(table);
  EXPECT_FALSE(given->weight.requires_grad());
  EXPECT_TRUE(torch::nn::EmbeddingBag::from_pretrained(
                  table, torch::nn::EmbeddingBagFromPretrainedOptions().freeze(false))
                  ->weight.requires_grad());
  EXPECT_ERROR(torch::nn::Embedding(torch::nn::EmbeddingOptions(3, 2).padding_idx(3)), c10::Error,
               "Padding_idx must be within num_embeddings");
}

TEST(Layers, GradientsAreClipped) {
  torch::nn::Linear layer(2, 2);
  (layer->forward(torch::ones({1, 2})) * 100).sum().backward();
  EXPECT_GT(torch::nn::utils::clip_grad_norm_(layer->parameters(), 1.0), 100);
  EXPECT_LE(layer->weight.grad().norm().item<float>(), 1);
  torch::nn::utils::clip_grad_value_(layer->parameters(), 0.01);
  EXPECT_LE(layer->weight.grad().max().item<float>(), 0.01F);
  const Tensor vector = torch::nn::utils::parameters_to_vector(layer->parameters());
  torch::nn::utils::vector_to_parameters(vector * 2, layer->parameters());
  EXPECT_TRUE(layer->weight.flatten().equal(vector.narrow(0, 0, 4) * 2));
}

TEST(Layers, LossesReduceAsTheyAreTold) {
  const Tensor x = torch::zeros({2, 3}), target = torch::ones({2, 3});
  EXPECT_EQ(torch::nn::MSELoss(torch::kSum)->forward(x, target).item<float>(), 6);
  EXPECT_EQ(torch::nn::L1Loss(torch::kNone)->forward(x, target).dim(), 2);
  namespace F = torch::nn::functional;
  const Tensor classes = torch::zeros({2}, torch::DType::int64);
  EXPECT_NEAR(
      F::cross_entropy(x, classes, F::CrossEntropyFuncOptions().label_smoothing(0.1)).item<float>(),
      std::log(3.0), 1e-5);
}

TEST(Layers, PoolsSayWhereTheyFoundTheirValues) {
  torch::nn::MaxPool2d pool(torch::nn::MaxPool2dOptions({2, 2}).stride(1));
  const auto [values, indices] = pool->forward_with_indices(flambeau::count({1, 1, 3, 3}));
  EXPECT_EQ(values.max().item<float>(), 8);
  EXPECT_EQ(indices.max().item<int64_t>(), 8);
  torch::nn::AdaptiveAvgPool2d whole(torch::nn::AdaptiveAvgPool2dOptions({std::nullopt, 1}));
  EXPECT_EQ(whole->forward(torch::ones({1, 1, 4, 5})).size(2), 4);
}

TEST(Layers, FunctionsTakeOptions) {
  namespace F = torch::nn::functional;
  const Tensor image = torch::ones({1, 1, 2, 2});
  EXPECT_EQ(F::interpolate(image, F::InterpolateFuncOptions()
                                      .scale_factor(std::vector<double>{2, 2})
                                      .mode(torch::kBilinear)
                                      .align_corners(false))
                .size(3),
            4);
  EXPECT_EQ(F::pad(image, F::PadFuncOptions({1, 2, 0, 0}).mode(torch::kReplicate)).size(3), 5);
  EXPECT_NEAR(F::normalize(image, F::NormalizeFuncOptions().dim(3)).sum().item<float>(),
              4 / std::sqrt(2.0), 1e-5);
  const Tensor theta = torch::eye(2, 3).unsqueeze(0);
  const Tensor grid = F::affine_grid(theta, {1, 1, 2, 2}, true);
  EXPECT_TRUE(
      F::grid_sample(image, grid, F::GridSampleFuncOptions().align_corners(true)).allclose(image));
  EXPECT_EQ(F::max_pool2d(image, F::MaxPool2dFuncOptions(2)).numel(), 1);
  EXPECT_EQ(F::one_hot(torch::arange(3), 4).size(1), 4);
}

TEST(Layers, DropoutChecksItsProbability) {
  EXPECT_ERROR(torch::nn::Dropout(1.5), c10::Error,
               "dropout probability has to be between 0 and 1, but got 1.5");
}

}  // namespace
