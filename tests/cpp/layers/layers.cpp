// Every layer as C++ makes and calls it: `layers OUT` writes initial values, inputs, outputs and
// gradients, by the text of the same layer in Python, for tests/python/nn/test_cpp_layers.py.
#include <torch/torch.h>

#include <string>
#include <tuple>
#include <vector>

namespace {

namespace nn = torch::nn;
using torch::Tensor;

torch::serialize::OutputArchive all;

void write(const std::string& layer, const std::string& part, const Tensor& tensor) {
  all.write(layer + "|" + part, tensor.detach().clone());
}

void collect(std::vector<Tensor>& list, const Tensor& tensor) {
  if (tensor.defined()) list.push_back(tensor);
}
void collect(std::vector<Tensor>& list, const nn::ASMoutput& both) { list.push_back(both.output); }
template <class... T>
void collect(std::vector<Tensor>& list, const std::tuple<T...>& tuple) {
  std::apply([&](const auto&... each) { (collect(list, each), ...); }, tuple);
}

// Makes the layer with one seed, calls it with another, and asks for all gradients.
template <class Make, class... Inputs>
void row(const std::string& layer, const Make& make, Inputs... inputs) {
  torch::manual_seed(0);
  auto module = make();
  for (const auto& item : module->named_parameters()) write(layer, "state|" + item.key(), *item);
  for (const auto& item : module->named_buffers()) write(layer, "state|" + item.key(), *item);
  std::vector<Tensor> given{inputs...};
  for (size_t i = 0; i < given.size(); ++i) {
    write(layer, "input|" + std::to_string(i), given[i]);
    if (given[i].is_floating()) given[i].requires_grad_();
  }
  torch::manual_seed(1);
  std::vector<Tensor> outputs;
  collect(outputs, module->forward(inputs...));
  Tensor sum;
  for (size_t i = 0; i < outputs.size(); ++i) {
    write(layer, "output|" + std::to_string(i), outputs[i]);
    if (!outputs[i].requires_grad()) continue;
    const Tensor part = (outputs[i] * outputs[i]).sum();
    sum = sum.defined() ? sum + part : part;
  }
  if (sum.defined()) sum.backward();
  for (const auto& item : module->named_parameters())
    if (item->grad().defined()) write(layer, "gradient|" + item.key(), item->grad());
  for (size_t i = 0; i < given.size(); ++i)
    if (given[i].grad().defined())
      write(layer, "input gradient|" + std::to_string(i), given[i].grad());
}

Tensor random(std::vector<int64_t> sizes) {
  static double seed = 0;
  torch::manual_seed(static_cast<uint64_t>(100 + seed++));
  return torch::randn(sizes);
}
Tensor chances(std::vector<int64_t> sizes) { return random(std::move(sizes)).sigmoid(); }
Tensor classes(std::vector<int64_t> sizes, int64_t n) {
  return torch::randint(n, sizes, torch::DType::int64);
}
Tensor signs(std::vector<int64_t> sizes) { return random(std::move(sizes)).sign(); }

// The Python text, the C++ one without nn::, inputs.
#define ROW(python, cpp, ...) \
  row(                        \
      python, [] { return nn::cpp; }, __VA_ARGS__)

void linear() {
  ROW("Linear(4, 3)", Linear(4, 3), random({2, 4}));
  ROW("Linear(4, 3, bias=False)", Linear(nn::LinearOptions(4, 3).bias(false)), random({2, 4}));
  ROW("Bilinear(3, 4, 5)", Bilinear(3, 4, 5), random({2, 3}), random({2, 4}));
  ROW("Identity()", Identity(), random({2, 3}));
  ROW("Flatten()", Flatten(), random({2, 3, 4}));
  ROW("Unflatten(1, (2, 3))", Unflatten(1, std::vector<int64_t>{2, 3}), random({2, 6}));
}

void activations() {
#define ACTIVATION(python, cpp) ROW(python, cpp, random({3, 4}))
  ACTIVATION("ELU(alpha=0.5)", ELU(nn::ELUOptions().alpha(0.5)));
  ACTIVATION("CELU()", CELU());
  ACTIVATION("SELU()", SELU());
  ACTIVATION("GLU()", GLU());
  ACTIVATION("GELU()", GELU());
  ACTIVATION("GELU('tanh')", GELU(nn::GELUOptions().approximate("tanh")));
  ACTIVATION("Hardshrink()", Hardshrink());
  ACTIVATION("Hardtanh(-0.5, 0.7)", Hardtanh(nn::HardtanhOptions().min_val(-0.5).max_val(0.7)));
  ACTIVATION("Hardswish()", Hardswish());
  ACTIVATION("Hardsigmoid()", Hardsigmoid());
  ACTIVATION("LeakyReLU(0.2)", LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)));
  ACTIVATION("LogSigmoid()", LogSigmoid());
  ACTIVATION("Mish()", Mish());
  ACTIVATION("PReLU(4)", PReLU(nn::PReLUOptions().num_parameters(4)));
  ACTIVATION("ReLU()", ReLU());
  ACTIVATION("ReLU6()", ReLU6());
  ACTIVATION("RReLU()", RReLU());
  ACTIVATION("Sigmoid()", Sigmoid());
  ACTIVATION("SiLU()", SiLU());
  ACTIVATION("Softmax(1)", Softmax(1));
  ACTIVATION("Softmin(1)", Softmin(1));
  ACTIVATION("LogSoftmax(1)", LogSoftmax(1));
  ACTIVATION("Softplus(2, 10)", Softplus(nn::SoftplusOptions().beta(2).threshold(10)));
  ACTIVATION("Softshrink()", Softshrink());
  ACTIVATION("Softsign()", Softsign());
  ACTIVATION("Tanh()", Tanh());
  ACTIVATION("Tanhshrink()", Tanhshrink());
  ACTIVATION("Threshold(0.1, 20)", Threshold(0.1, 20));
  ACTIVATION("Dropout(0.3)", Dropout(0.3));
  ACTIVATION("AlphaDropout(0.3)", AlphaDropout(0.3));
  ROW("Softmax2d()", Softmax2d(), random({2, 3, 4, 5}));
  ROW("Dropout1d()", Dropout1d(), random({2, 8, 5}));
  ROW("Dropout2d()", Dropout2d(), random({2, 8, 5, 3}));
  ROW("Dropout3d()", Dropout3d(), random({8, 5, 3, 2}));
  ROW("FeatureAlphaDropout()", FeatureAlphaDropout(), random({2, 8, 5}));
}

void convolutions() {
  ROW("Conv1d(4, 6, 3)", Conv1d(4, 6, 3), random({2, 4, 9}));
  ROW("Conv2d(4, 6, (3, 2), stride=2, padding=(1, 0), dilation=(1, 2), groups=2)",
      Conv2d(nn::Conv2dOptions(4, 6, {3, 2}).stride(2).padding({1, 0}).dilation({1, 2}).groups(2)),
      random({2, 4, 9, 8}));
  ROW("Conv2d(4, 6, 3, padding='same', bias=False)",
      Conv2d(nn::Conv2dOptions(4, 6, 3).padding(torch::kSame).bias(false)), random({2, 4, 9, 8}));
  ROW("Conv2d(4, 6, 3, padding='same', padding_mode='reflect')",
      Conv2d(nn::Conv2dOptions(4, 6, 3).padding(torch::kSame).padding_mode(torch::kReflect)),
      random({2, 4, 9, 8}));
  ROW("Conv2d(4, 6, 3, padding=(1, 2), padding_mode='circular')",
      Conv2d(nn::Conv2dOptions(4, 6, 3).padding({1, 2}).padding_mode(torch::kCircular)),
      random({2, 4, 9, 8}));
  ROW("Conv3d(2, 3, 3)", Conv3d(2, 3, 3), random({2, 2, 5, 5, 5}));
  ROW("ConvTranspose1d(4, 6, 3, stride=2)",
      ConvTranspose1d(nn::ConvTranspose1dOptions(4, 6, 3).stride(2)), random({2, 4, 5}));
  ROW("ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)",
      ConvTranspose2d(
          nn::ConvTranspose2dOptions(4, 6, 3).stride(2).padding(1).output_padding(1).groups(2)),
      random({2, 4, 5, 5}));
  ROW("ConvTranspose3d(2, 3, 3)", ConvTranspose3d(2, 3, 3), random({2, 2, 3, 3, 3}));
  ROW("Fold((4, 5), (2, 2))", Fold(nn::FoldOptions({4, 5}, {2, 2})), random({1, 12, 12}));
  ROW("Unfold((2, 3), stride=2)", Unfold(nn::UnfoldOptions({2, 3}).stride(2)),
      random({2, 3, 6, 7}));
}

void norms() {
  ROW("BatchNorm1d(4)", BatchNorm1d(4), random({5, 4}));
  ROW("BatchNorm2d(4, momentum=None)",
      BatchNorm2d(nn::BatchNorm2dOptions(4).momentum(std::nullopt)), random({3, 4, 5, 2}));
  ROW("BatchNorm3d(4, affine=False, track_running_stats=False)",
      BatchNorm3d(nn::BatchNorm3dOptions(4).affine(false).track_running_stats(false)),
      random({3, 4, 5, 2, 2}));
  ROW("InstanceNorm1d(4)", InstanceNorm1d(4), random({3, 4, 6}));
  ROW("InstanceNorm2d(4, affine=True)", InstanceNorm2d(nn::InstanceNorm2dOptions(4).affine(true)),
      random({4, 6, 5}));
  ROW("InstanceNorm3d(4, track_running_stats=True)",
      InstanceNorm3d(nn::InstanceNorm3dOptions(4).track_running_stats(true)),
      random({2, 4, 3, 3, 3}));
  ROW("LayerNorm((3, 4))", LayerNorm(nn::LayerNormOptions({3, 4})), random({2, 3, 4}));
  ROW("RMSNorm((4,))", RMSNorm(nn::RMSNormOptions({4})), random({2, 3, 4}));
  ROW("GroupNorm(2, 4)", GroupNorm(2, 4), random({2, 4, 5}));
  ROW("LocalResponseNorm(2)", LocalResponseNorm(2), random({2, 4, 5, 3}));
  ROW("CrossMapLRN2d(3)", CrossMapLRN2d(3), random({2, 4, 5, 3}));
}

void pools() {
#define POOLS(D, ...)                                                                             \
  ROW("AvgPool" #D "d(2)", AvgPool##D##d(2), random(__VA_ARGS__));                                \
  ROW("MaxPool" #D "d(3, 2, 1)", MaxPool##D##d(nn::MaxPool##D##dOptions(3).stride(2).padding(1)), \
      random(__VA_ARGS__));                                                                       \
  ROW("AdaptiveAvgPool" #D "d(3)", AdaptiveAvgPool##D##d(3), random(__VA_ARGS__));                \
  ROW("AdaptiveMaxPool" #D "d(3)", AdaptiveMaxPool##D##d(3), random(__VA_ARGS__));                \
  ROW("LPPool" #D "d(2, 3)", LPPool##D##d(2, 3), random(__VA_ARGS__).abs());                      \
  ROW("ReplicationPad" #D "d(2)", ReplicationPad##D##d(2), random(__VA_ARGS__));                  \
  ROW("ReflectionPad" #D "d(2)", ReflectionPad##D##d(2), random(__VA_ARGS__));                    \
  ROW("ZeroPad" #D "d(2)", ZeroPad##D##d(2), random(__VA_ARGS__));                                \
  ROW("CircularPad" #D "d(2)", CircularPad##D##d(2), random(__VA_ARGS__));                        \
  ROW("ConstantPad" #D "d(2, 1.5)", ConstantPad##D##d(2, 1.5), random(__VA_ARGS__));
  POOLS(1, {2, 3, 9});
  POOLS(2, {2, 3, 9, 7});
  POOLS(3, {2, 3, 5, 6, 7});
  ROW("AvgPool2d(2, count_include_pad=False, padding=1, divisor_override=3)",
      AvgPool2d(nn::AvgPool2dOptions(2).count_include_pad(false).padding(1).divisor_override(3)),
      random({2, 3, 6, 6}));
  ROW("AdaptiveAvgPool2d((None, 2))",
      AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions({std::nullopt, 2})), random({2, 3, 6, 6}));
  ROW("FractionalMaxPool2d(2, output_ratio=0.5)",
      FractionalMaxPool2d(nn::FractionalMaxPool2dOptions(2).output_ratio(0.5)),
      random({2, 3, 6, 6}));
  ROW("FractionalMaxPool3d(2, output_size=3)",
      FractionalMaxPool3d(nn::FractionalMaxPool3dOptions(2).output_size(3)),
      random({2, 3, 6, 6, 6}));
  ROW("MaxUnpool1d(2)", MaxUnpool1d(2), random({1, 1, 2}), torch::arange(2).view({1, 1, 2}));
}

void spatial() {
  ROW("PixelShuffle(2)", PixelShuffle(2), random({2, 8, 3, 3}));
  ROW("PixelUnshuffle(2)", PixelUnshuffle(2), random({2, 2, 4, 6}));
  ROW("ChannelShuffle(2)", ChannelShuffle(2), random({2, 4, 3, 3}));
  ROW("Upsample(scale_factor=(2.0, 2.0), mode='bilinear', align_corners=True)",
      Upsample(nn::UpsampleOptions()
                   .scale_factor(std::vector<double>{2, 2})
                   .mode(torch::kBilinear)
                   .align_corners(true)),
      random({2, 3, 4, 5}));
  ROW("Upsample((7,), mode='nearest')",
      Upsample(nn::UpsampleOptions().size(std::vector<int64_t>{7})), random({2, 3, 4}));
  ROW("CosineSimilarity()", CosineSimilarity(), random({3, 4}), random({3, 4}));
  ROW("PairwiseDistance(1)", PairwiseDistance(nn::PairwiseDistanceOptions().p(1)), random({3, 4}),
      random({3, 4}));
}

void embeddings() {
  ROW("Embedding(10, 3, padding_idx=2)", Embedding(nn::EmbeddingOptions(10, 3).padding_idx(2)),
      classes({2, 5}, 10));
  ROW("Embedding(10, 3, max_norm=1.0)", Embedding(nn::EmbeddingOptions(10, 3).max_norm(1.0)),
      classes({2, 5}, 10));
  ROW("EmbeddingBag(10, 3)", EmbeddingBag(10, 3), classes({2, 5}, 10));
  ROW("EmbeddingBag(10, 3, mode='max')",
      EmbeddingBag(nn::EmbeddingBagOptions(10, 3).mode(torch::kMax)), classes({2, 5}, 10));
}

void losses() {
#define LOSS(python, cpp) ROW(python, cpp, random({3, 4}), random({3, 4}))
  LOSS("L1Loss()", L1Loss());
  LOSS("MSELoss(reduction='sum')", MSELoss(torch::kSum));
  LOSS("SmoothL1Loss(beta=0.5)", SmoothL1Loss(nn::SmoothL1LossOptions().beta(0.5)));
  LOSS("HuberLoss(reduction='none')", HuberLoss(torch::kNone));
  LOSS("KLDivLoss(reduction='batchmean', log_target=True)",
       KLDivLoss(nn::KLDivLossOptions(torch::kBatchMean).log_target(true)));
  LOSS("BCEWithLogitsLoss()", BCEWithLogitsLoss());
  LOSS("PoissonNLLLoss()", PoissonNLLLoss());
  ROW("BCELoss()", BCELoss(), chances({3, 4}), chances({3, 4}));
  ROW("GaussianNLLLoss()", GaussianNLLLoss(), random({3, 4}), random({3, 4}), chances({3, 4}));
  ROW("HingeEmbeddingLoss()", HingeEmbeddingLoss(), random({3, 4}), signs({3, 4}));
  ROW("SoftMarginLoss()", SoftMarginLoss(), random({3, 4}), signs({3, 4}));
  ROW("MultiLabelSoftMarginLoss()", MultiLabelSoftMarginLoss(), random({3, 4}),
      chances({3, 4}).round());
  ROW("MultiLabelMarginLoss()", MultiLabelMarginLoss(), random({3, 4}), classes({3, 4}, 4));
  ROW("MultiMarginLoss()", MultiMarginLoss(), random({3, 4}), classes({3}, 4));
  ROW("NLLLoss()", NLLLoss(), random({3, 4}), classes({3}, 4));
  ROW("CrossEntropyLoss(label_smoothing=0.1)",
      CrossEntropyLoss(nn::CrossEntropyLossOptions().label_smoothing(0.1)), random({3, 4}),
      classes({3}, 4));
  ROW("CosineEmbeddingLoss()", CosineEmbeddingLoss(), random({3, 4}), random({3, 4}), signs({3}));
  ROW("MarginRankingLoss(0.1)", MarginRankingLoss(nn::MarginRankingLossOptions().margin(0.1)),
      random({3}), random({3}), signs({3}));
  ROW("TripletMarginLoss(swap=True)", TripletMarginLoss(nn::TripletMarginLossOptions().swap(true)),
      random({3, 4}), random({3, 4}), random({3, 4}));
  ROW("TripletMarginWithDistanceLoss()", TripletMarginWithDistanceLoss(), random({3, 4}),
      random({3, 4}), random({3, 4}));
  ROW("CTCLoss()", CTCLoss(), random({6, 2, 5}).log_softmax(2), classes({2, 3}, 4) + 1,
      torch::full({2}, 6, torch::DType::int64), torch::full({2}, 3, torch::DType::int64));
  ROW("AdaptiveLogSoftmaxWithLoss(8, 10, [4, 8], 2.0)",
      AdaptiveLogSoftmaxWithLoss(
          nn::AdaptiveLogSoftmaxWithLossOptions(8, 10, {4, 8}).div_value(2.0)),
      random({6, 8}), classes({6}, 10));
}

void recurrent() {
  ROW("RNN(3, 4, nonlinearity='relu', num_layers=2)",
      RNN(nn::RNNOptions(3, 4).nonlinearity(torch::kReLU).num_layers(2)), random({5, 2, 3}));
  ROW("RNN(3, 4, bias=False)", RNN(nn::RNNOptions(3, 4).bias(false)), random({5, 3}),
      random({1, 4}));
  ROW("LSTM(3, 4, num_layers=2, bidirectional=True, dropout=0.5)",
      LSTM(nn::LSTMOptions(3, 4).num_layers(2).bidirectional(true).dropout(0.5)),
      random({5, 2, 3}));
  ROW("LSTM(3, 4, proj_size=2, batch_first=True)",
      LSTM(nn::LSTMOptions(3, 4).proj_size(2).batch_first(true)), random({5, 2, 3}));
  ROW("GRU(3, 4)", GRU(3, 4), random({5, 2, 3}), random({1, 2, 4}));
  ROW("RNNCell(3, 4)", RNNCell(3, 4), random({2, 3}), random({2, 4}));
  ROW("LSTMCell(3, 4)", LSTMCell(3, 4), random({2, 3}));
  ROW("GRUCell(3, 4, bias=False)", GRUCell(nn::GRUCellOptions(3, 4).bias(false)), random({3}));
}

void attention() {
  ROW("MultiheadAttention(4, 2)", MultiheadAttention(4, 2), random({3, 2, 4}), random({5, 2, 4}),
      random({5, 2, 4}));
  ROW("MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True, kdim=3, vdim=5, dropout=0.1)",
      MultiheadAttention(nn::MultiheadAttentionOptions(4, 2)
                             .add_bias_kv(true)
                             .add_zero_attn(true)
                             .kdim(3)
                             .vdim(5)
                             .dropout(0.1)),
      random({3, 2, 4}), random({5, 2, 3}), random({5, 2, 5}));
  ROW("TransformerEncoderLayer(4, 2, 8)",
      TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(4, 2).dim_feedforward(8)),
      random({3, 2, 4}));
  ROW("TransformerDecoderLayer(4, 2, 8, activation='gelu')",
      TransformerDecoderLayer(
          nn::TransformerDecoderLayerOptions(4, 2).dim_feedforward(8).activation(torch::kGELU)),
      random({3, 2, 4}), random({5, 2, 4}));
  ROW("TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2)",
      TransformerEncoder(nn::TransformerEncoderOptions(
          nn::TransformerEncoderLayerOptions(4, 2).dim_feedforward(8), 2)),
      random({3, 2, 4}), nn::TransformerImpl::generate_square_subsequent_mask(3));
  ROW("Transformer(4, 2, 2, 2, 8)",
      Transformer(nn::TransformerOptions(4, 2, 2, 2).dim_feedforward(8)), random({3, 2, 4}),
      random({5, 2, 4}));
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 1;
  linear();
  activations();
  convolutions();
  norms();
  pools();
  spatial();
  embeddings();
  losses();
  recurrent();
  attention();
  all.save_to(arguments[1]);
}
