// How layers print themselves: as libtorch's do.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

namespace {

using namespace torch::nn;  // NOLINT: a table of layers
using torch::kBilinear;
using torch::kCircular;
using torch::kReLU;
using torch::kSame;
using torch::kSum;
using torch::kValid;

#define SHOWS(layer, text)        \
  do {                            \
    std::ostringstream shown;     \
    shown << (layer);             \
    EXPECT_EQ(shown.str(), text); \
  } while (false)

TEST(Text, IsThatOfLibtorch1) {
  SHOWS((ELU(ELUOptions().alpha(42.42).inplace(true))),
        "torch::nn::ELU(alpha=42.42, inplace=true)");
  SHOWS((ELU()), "torch::nn::ELU(alpha=1)");
  SHOWS((SELU()), "torch::nn::SELU()");
  SHOWS((SELU(SELUOptions().inplace(true))), "torch::nn::SELU(inplace=true)");
  SHOWS((Hardshrink()), "torch::nn::Hardshrink(0.5)");
  SHOWS((Hardshrink(0.3)), "torch::nn::Hardshrink(0.3)");
  SHOWS((Hardtanh()), "torch::nn::Hardtanh(min_val=-1, max_val=1)");
  SHOWS((Hardtanh(HardtanhOptions().min_val(-2).inplace(true))),
        "torch::nn::Hardtanh(min_val=-2, max_val=1, inplace=true)");
  SHOWS((LeakyReLU()), "torch::nn::LeakyReLU(negative_slope=0.01)");
  SHOWS((LeakyReLU(LeakyReLUOptions().inplace(true))),
        "torch::nn::LeakyReLU(negative_slope=0.01, inplace=true)");
  SHOWS((LogSigmoid()), "torch::nn::LogSigmoid()");
  SHOWS((Softmax(1)), "torch::nn::Softmax(dim=1)");
  SHOWS((Softmin(1)), "torch::nn::Softmin(dim=1)");
  SHOWS((LogSoftmax(1)), "torch::nn::LogSoftmax(dim=1)");
  SHOWS((Softmax2d()), "torch::nn::Softmax2d()");
  SHOWS((PReLU()), "torch::nn::PReLU(num_parameters=1)");
  SHOWS((PReLU(PReLUOptions().num_parameters(3))), "torch::nn::PReLU(num_parameters=3)");
  SHOWS((ReLU()), "torch::nn::ReLU()");
  SHOWS((ReLU(true)), "torch::nn::ReLU(inplace=true)");
  SHOWS((ReLU6()), "torch::nn::ReLU6()");
  SHOWS((ReLU6(ReLU6Options(true))), "torch::nn::ReLU6(inplace=true)");
  SHOWS((RReLU()), "torch::nn::RReLU(lower=0.125, upper=0.333333)");
  SHOWS((RReLU(RReLUOptions().inplace(true))),
        "torch::nn::RReLU(lower=0.125, upper=0.333333, inplace=true)");
  SHOWS((CELU()), "torch::nn::CELU(alpha=1)");
  SHOWS((CELU(CELUOptions().inplace(true))), "torch::nn::CELU(alpha=1, inplace=true)");
  SHOWS((GLU()), "torch::nn::GLU(dim=-1)");
  SHOWS((GELU()), "torch::nn::GELU()");
}

TEST(Text, IsThatOfLibtorch2) {
  SHOWS((GELU(GELUOptions().approximate("tanh"))), "torch::nn::GELU()");
  SHOWS((SiLU()), "torch::nn::SiLU()");
  SHOWS((Mish()), "torch::nn::Mish()");
  SHOWS((Sigmoid()), "torch::nn::Sigmoid()");
  SHOWS((Softplus()), "torch::nn::Softplus(beta=1, threshold=20)");
  SHOWS((Softshrink()), "torch::nn::Softshrink(0.5)");
  SHOWS((Softsign()), "torch::nn::Softsign()");
  SHOWS((Tanh()), "torch::nn::Tanh()");
  SHOWS((Tanhshrink()), "torch::nn::Tanhshrink()");
  SHOWS((Threshold(1, 2)), "torch::nn::Threshold(threshold=1, value=2)");
  SHOWS((Threshold(ThresholdOptions(1, 2).inplace(true))),
        "torch::nn::Threshold(threshold=1, value=2, inplace=true)");
  SHOWS(
      (BatchNorm1d(4)),
      "torch::nn::BatchNorm1d(4, eps=1e-05, momentum=0.1, affine=true, track_running_stats=true)");
  SHOWS((BatchNorm2d(BatchNormOptions(4).momentum(std::nullopt).affine(false).eps(1e-3))),
        "torch::nn::BatchNorm2d(4, eps=0.001, momentum=None, affine=false, "
        "track_running_stats=true)");
  SHOWS(
      (BatchNorm3d(4)),
      "torch::nn::BatchNorm3d(4, eps=1e-05, momentum=0.1, affine=true, track_running_stats=true)");
  SHOWS((InstanceNorm1d(4)),
        "torch::nn::InstanceNorm1d(4, eps=1e-05, momentum=0.1, affine=false, "
        "track_running_stats=false)");
  SHOWS((InstanceNorm2d(InstanceNorm2dOptions(4).affine(true))),
        "torch::nn::InstanceNorm2d(4, eps=1e-05, momentum=0.1, affine=true, "
        "track_running_stats=false)");
  SHOWS((InstanceNorm3d(4)),
        "torch::nn::InstanceNorm3d(4, eps=1e-05, momentum=0.1, affine=false, "
        "track_running_stats=false)");
  SHOWS((Conv1d(3, 4, 5)), "torch::nn::Conv1d(3, 4, kernel_size=5, stride=1)");
  SHOWS((Conv2d(3, 4, 5)), "torch::nn::Conv2d(3, 4, kernel_size=[5, 5], stride=[1, 1])");
  SHOWS((Conv2d(Conv2dOptions(4, 4, {3, 5})
                    .stride(2)
                    .padding({1, 2})
                    .dilation(2)
                    .groups(2)
                    .bias(false)
                    .padding_mode(kCircular))),
        "torch::nn::Conv2d(4, 4, kernel_size=[3, 5], stride=[2, 2], padding=[1, 2], dilation=[2, "
        "2], groups=2, bias=false, padding_mode=kCircular)");
  SHOWS((Conv3d(Conv3dOptions(3, 4, 3).padding(kSame))),
        "torch::nn::Conv3d(3, 4, kernel_size=[3, 3, 3], stride=[1, 1, 1], padding='same')");
  SHOWS((Conv2d(Conv2dOptions(3, 4, 3).padding(kValid))),
        "torch::nn::Conv2d(3, 4, kernel_size=[3, 3], stride=[1, 1], padding='valid')");
  SHOWS((Conv1d(Conv1dOptions(3, 4, 3).padding(1).dilation(2))),
        "torch::nn::Conv1d(3, 4, kernel_size=3, stride=1, padding=1, dilation=2)");
  SHOWS((ConvTranspose1d(3, 4, 5)), "torch::nn::ConvTranspose1d(3, 4, kernel_size=5, stride=1)");
  SHOWS((ConvTranspose2d(ConvTranspose2dOptions(3, 4, 5).stride(2).output_padding(1).padding(1))),
        "torch::nn::ConvTranspose2d(3, 4, kernel_size=[5, 5], stride=[2, 2], padding=[1, 1], "
        "output_padding=[1, 1])");
  SHOWS((ConvTranspose3d(3, 4, 5)),
        "torch::nn::ConvTranspose3d(3, 4, kernel_size=[5, 5, 5], stride=[1, 1, 1])");
  SHOWS((CosineSimilarity()), "torch::nn::CosineSimilarity(dim=1, eps=1e-08)");
}

TEST(Text, IsThatOfLibtorch3) {
  SHOWS((PairwiseDistance()), "torch::nn::PairwiseDistance(p=2, eps=1e-06, keepdim=false)");
  SHOWS((PairwiseDistance(PairwiseDistanceOptions().p(1).keepdim(true))),
        "torch::nn::PairwiseDistance(p=1, eps=1e-06, keepdim=true)");
  SHOWS((Dropout()), "torch::nn::Dropout(p=0.5, inplace=false)");
  SHOWS((Dropout(0.3)), "torch::nn::Dropout(p=0.3, inplace=false)");
  SHOWS((Dropout2d(Dropout2dOptions(0.2).inplace(true))),
        "torch::nn::Dropout2d(p=0.2, inplace=true)");
  SHOWS((Dropout3d()), "torch::nn::Dropout3d(p=0.5, inplace=false)");
  SHOWS((AlphaDropout()), "torch::nn::AlphaDropout(p=0.5, inplace=false)");
  SHOWS((FeatureAlphaDropout()), "torch::nn::FeatureAlphaDropout(p=0.5, inplace=false)");
  SHOWS((Embedding(10, 3)), "torch::nn::Embedding(num_embeddings=10, embedding_dim=3)");
  SHOWS((Embedding(EmbeddingOptions(10, 3)
                       .padding_idx(2)
                       .max_norm(1.5)
                       .norm_type(1)
                       .scale_grad_by_freq(true)
                       .sparse(true))),
        "torch::nn::Embedding(num_embeddings=10, embedding_dim=3, padding_idx=2, max_norm=1.5, "
        "norm_type=1, scale_grad_by_freq=true, sparse=true)");
  SHOWS((EmbeddingBag(10, 3)), "torch::nn::EmbeddingBag(num_embeddings=10, embedding_dim=3)");
  SHOWS((EmbeddingBag(EmbeddingBagOptions(10, 3)
                          .max_norm(2)
                          .norm_type(1)
                          .scale_grad_by_freq(true)
                          .sparse(true)
                          .mode(kSum))),
        "torch::nn::EmbeddingBag(num_embeddings=10, embedding_dim=3, max_norm=2, norm_type=1, "
        "scale_grad_by_freq=true, sparse=true, mode=kSum)");
  SHOWS((EmbeddingBag(EmbeddingBagOptions(10, 3).padding_idx(2).include_last_offset(true))),
        "torch::nn::EmbeddingBag(num_embeddings=10, embedding_dim=3, include_last_offset=true, "
        "padding_idx=2)");
  SHOWS((Fold(4, 2)),
        "torch::nn::Fold(output_size=[4, 4], kernel_size=[2, 2], dilation=[1, 1], padding=[0, 0], "
        "stride=[1, 1])");
  SHOWS((Fold(FoldOptions({4, 5}, {2, 3}).stride(2).padding(1).dilation(2))),
        "torch::nn::Fold(output_size=[4, 5], kernel_size=[2, 3], dilation=[2, 2], padding=[1, 1], "
        "stride=[2, 2])");
  SHOWS((Unfold(2)),
        "torch::nn::Unfold(kernel_size=[2, 2], dilation=[1, 1], padding=[0, 0], stride=[1, 1])");
  SHOWS((Unfold(UnfoldOptions({2, 3}).stride(2))),
        "torch::nn::Unfold(kernel_size=[2, 3], dilation=[1, 1], padding=[0, 0], stride=[2, 2])");
  SHOWS((Identity()), "torch::nn::Identity()");
  SHOWS((Linear(3, 4)), "torch::nn::Linear(in_features=3, out_features=4, bias=true)");
  SHOWS((Linear(LinearOptions(3, 4).bias(false))),
        "torch::nn::Linear(in_features=3, out_features=4, bias=false)");
  SHOWS((Flatten()), "torch::nn::Flatten(start_dim=1, end_dim=-1)");
  SHOWS((Flatten(FlattenOptions().start_dim(2).end_dim(3))),
        "torch::nn::Flatten(start_dim=2, end_dim=3)");
  SHOWS((Unflatten(1, std::vector<int64_t>{2, 3})),
        "torch::nn::Unflatten(dim=1, unflattened_size={2, 3})");
  SHOWS((Bilinear(2, 3, 4)),
        "torch::nn::Bilinear(in1_features=2, in2_features=3, out_features=4, bias=true)");
  SHOWS((Bilinear(BilinearOptions(2, 3, 4).bias(false))),
        "torch::nn::Bilinear(in1_features=2, in2_features=3, out_features=4, bias=false)");
  SHOWS((L1Loss()), "torch::nn::L1Loss()");
  SHOWS((KLDivLoss()), "torch::nn::KLDivLoss()");
}

TEST(Text, IsThatOfLibtorch4) {
  SHOWS((MSELoss()), "torch::nn::MSELoss()");
  SHOWS((BCELoss()), "torch::nn::BCELoss()");
  SHOWS((HingeEmbeddingLoss()), "torch::nn::HingeEmbeddingLoss(margin=1)");
  SHOWS((HingeEmbeddingLoss(HingeEmbeddingLossOptions().margin(4))),
        "torch::nn::HingeEmbeddingLoss(margin=4)");
  SHOWS(
      (MultiMarginLoss()),
      "torch::nn::MultiMarginLoss(p=1, margin=1, weight=[ Tensor (undefined) ], reduction=kMean)");
  SHOWS((CosineEmbeddingLoss()), "torch::nn::CosineEmbeddingLoss(margin=0)");
  SHOWS((CosineEmbeddingLoss(CosineEmbeddingLossOptions().margin(0.25))),
        "torch::nn::CosineEmbeddingLoss(margin=0.25)");
  SHOWS((MultiLabelMarginLoss()), "torch::nn::MultiLabelMarginLoss()");
  SHOWS((SoftMarginLoss()), "torch::nn::SoftMarginLoss()");
  SHOWS((MultiLabelSoftMarginLoss()), "torch::nn::MultiLabelSoftMarginLoss()");
  SHOWS((TripletMarginLoss()),
        "torch::nn::TripletMarginLoss(margin=1, p=2, eps=1e-06, swap=false)");
  SHOWS((TripletMarginLoss(TripletMarginLossOptions().margin(3).p(2).eps(1e-3).swap(true))),
        "torch::nn::TripletMarginLoss(margin=3, p=2, eps=0.001, swap=true)");
  SHOWS((TripletMarginWithDistanceLoss()),
        "torch::nn::TripletMarginWithDistanceLoss(margin=1, swap=false)");
  SHOWS((TripletMarginWithDistanceLoss(
            TripletMarginWithDistanceLossOptions().margin(2).swap(true).distance_function(
                [](const torch::Tensor& a, const torch::Tensor& b) { return a - b; }))),
        "torch::nn::TripletMarginWithDistanceLoss(margin=2, swap=true)");
  SHOWS((CTCLoss()), "torch::nn::CTCLoss()");
  SHOWS((SmoothL1Loss()), "torch::nn::SmoothL1Loss");
  SHOWS((HuberLoss()), "torch::nn::HuberLoss");
  SHOWS((PoissonNLLLoss()), "torch::nn::PoissonNLLLoss()");
  SHOWS((MarginRankingLoss()), "torch::nn::MarginRankingLoss()");
  SHOWS((MarginRankingLoss(MarginRankingLossOptions().margin(0.5).reduction(kSum))),
        "torch::nn::MarginRankingLoss()");
  SHOWS((NLLLoss()), "torch::nn::NLLLoss()");
  SHOWS((CrossEntropyLoss()), "torch::nn::CrossEntropyLoss()");
  SHOWS((BCEWithLogitsLoss()), "torch::nn::BCEWithLogitsLoss()");
  SHOWS((LayerNorm(LayerNormOptions({2, 3}))),
        "torch::nn::LayerNorm([2, 3], eps=1e-05, elementwise_affine=true)");
  SHOWS((LayerNorm(LayerNormOptions({2}).elementwise_affine(false).eps(1e-6))),
        "torch::nn::LayerNorm([2], eps=1e-06, elementwise_affine=false)");
  SHOWS((LocalResponseNorm(2)), "torch::nn::LocalResponseNorm(2, alpha=0.0001, beta=0.75, k=1)");
  SHOWS((CrossMapLRN2d(CrossMapLRN2dOptions(4).alpha(0.01).k(2))),
        "torch::nn::CrossMapLRN2d(4, alpha=0.01, beta=0.75, k=2)");
}

TEST(Text, IsThatOfLibtorch5) {
  SHOWS((GroupNorm(2, 4)), "torch::nn::GroupNorm(2, 4, eps=1e-05, affine=true)");
  SHOWS((GroupNorm(GroupNormOptions(2, 2).eps(2e-5).affine(false))),
        "torch::nn::GroupNorm(2, 2, eps=2e-05, affine=false)");
  SHOWS((ReflectionPad1d(2)), "torch::nn::ReflectionPad1d(padding=[2, 2])");
  SHOWS((ReflectionPad2d(ReflectionPad2dOptions({1, 2, 3, 4}))),
        "torch::nn::ReflectionPad2d(padding=[1, 2, 3, 4])");
  SHOWS((ReflectionPad3d(2)), "torch::nn::ReflectionPad3d(padding=[2, 2, 2, 2, 2, 2])");
  SHOWS((ReplicationPad1d(1)), "torch::nn::ReplicationPad1d(padding=[1, 1])");
  SHOWS((ReplicationPad2d(1)), "torch::nn::ReplicationPad2d(padding=[1, 1, 1, 1])");
  SHOWS((ReplicationPad3d(ReplicationPad3dOptions({1, 2, 1, 2, 1, 2}))),
        "torch::nn::ReplicationPad3d(padding=[1, 2, 1, 2, 1, 2])");
  SHOWS((ZeroPad1d(1)), "torch::nn::ZeroPad1d(padding=[1, 1])");
  SHOWS((ZeroPad2d(1)), "torch::nn::ZeroPad2d(padding=[1, 1, 1, 1])");
  SHOWS((ZeroPad3d(1)), "torch::nn::ZeroPad3d(padding=[1, 1, 1, 1, 1, 1])");
  SHOWS((ConstantPad1d(ConstantPad1dOptions(1, 3.5))),
        "torch::nn::ConstantPad1d(padding=[1, 1], value=3.5)");
  SHOWS((ConstantPad2d(1, 2)), "torch::nn::ConstantPad2d(padding=[1, 1, 1, 1], value=2)");
  SHOWS((ConstantPad3d(1, 2)), "torch::nn::ConstantPad3d(padding=[1, 1, 1, 1, 1, 1], value=2)");
  SHOWS((PixelShuffle(5)), "torch::nn::PixelShuffle(upscale_factor=5)");
  SHOWS((PixelUnshuffle(5)), "torch::nn::PixelUnshuffle(downscale_factor=5)");
  SHOWS((AvgPool1d(2)), "torch::nn::AvgPool1d(kernel_size=2, stride=2, padding=0)");
  SHOWS((AvgPool2d(AvgPool2dOptions(2).stride(1))),
        "torch::nn::AvgPool2d(kernel_size=[2, 2], stride=[1, 1], padding=[0, 0])");
  SHOWS((AvgPool3d(5)),
        "torch::nn::AvgPool3d(kernel_size=[5, 5, 5], stride=[5, 5, 5], padding=[0, 0, 0])");
  SHOWS((MaxPool1d(2)),
        "torch::nn::MaxPool1d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=false)");
  SHOWS((MaxPool2d(MaxPool2dOptions({2, 3}).stride(2).padding(1).ceil_mode(true))),
        "torch::nn::MaxPool2d(kernel_size=[2, 3], stride=[2, 2], padding=[1, 1], dilation=[1, 1], "
        "ceil_mode=true)");
  SHOWS((MaxPool3d(2)),
        "torch::nn::MaxPool3d(kernel_size=[2, 2, 2], stride=[2, 2, 2], padding=[0, 0, 0], "
        "dilation=[1, 1, 1], ceil_mode=false)");
  SHOWS((AdaptiveMaxPool1d(5)), "torch::nn::AdaptiveMaxPool1d(output_size=5)");
  SHOWS((AdaptiveMaxPool2d(5)), "torch::nn::AdaptiveMaxPool2d(output_size=[5, 5])");
  SHOWS((AdaptiveMaxPool2d(AdaptiveMaxPool2dOptions({5, std::nullopt}))),
        "torch::nn::AdaptiveMaxPool2d(output_size=[5, None])");
  SHOWS((AdaptiveMaxPool3d(5)), "torch::nn::AdaptiveMaxPool3d(output_size=[5, 5, 5])");
  SHOWS((AdaptiveAvgPool1d(5)), "torch::nn::AdaptiveAvgPool1d(output_size=5)");
}

TEST(Text, IsThatOfLibtorch6) {
  SHOWS((AdaptiveAvgPool2d(AdaptiveAvgPool2dOptions({1, 1}))),
        "torch::nn::AdaptiveAvgPool2d(output_size=[1, 1])");
  SHOWS((AdaptiveAvgPool3d(AdaptiveAvgPool3dOptions({5, std::nullopt, 4}))),
        "torch::nn::AdaptiveAvgPool3d(output_size=[5, None, 4])");
  SHOWS((MaxUnpool1d(3)), "torch::nn::MaxUnpool1d(kernel_size=3, stride=3, padding=0)");
  SHOWS((MaxUnpool2d(3)),
        "torch::nn::MaxUnpool2d(kernel_size=[3, 3], stride=[3, 3], padding=[0, 0])");
  SHOWS((MaxUnpool3d(MaxUnpool3dOptions(3).stride(2).padding(1))),
        "torch::nn::MaxUnpool3d(kernel_size=[3, 3, 3], stride=[2, 2, 2], padding=[1, 1, 1])");
  SHOWS((FractionalMaxPool2d(FractionalMaxPool2dOptions(5).output_size(1))),
        "torch::nn::FractionalMaxPool2d()");
  SHOWS((FractionalMaxPool3d(FractionalMaxPool3dOptions(5).output_ratio(0.5))),
        "torch::nn::FractionalMaxPool3d()");
  SHOWS((LPPool1d(1, 2)),
        "torch::nn::LPPool1d(norm_type=1, kernel_size=2, stride=2, ceil_mode=false)");
  SHOWS((LPPool2d(LPPool2dOptions(1, std::vector<int64_t>({3, 4})).stride(5).ceil_mode(true))),
        "torch::nn::LPPool2d(norm_type=1, kernel_size=[3, 4], stride=[5, 5], ceil_mode=true)");
  SHOWS(
      (LPPool3d(2, 2)),
      "torch::nn::LPPool3d(norm_type=2, kernel_size=[2, 2, 2], stride=[2, 2, 2], ceil_mode=false)");
  SHOWS((RNN(3, 4)),
        "torch::nn::RNN(input_size=3, hidden_size=4, num_layers=1, bias=true, batch_first=false, "
        "dropout=0, bidirectional=false)");
  SHOWS((RNN(RNNOptions(3, 4)
                 .num_layers(2)
                 .bias(false)
                 .batch_first(true)
                 .dropout(0.5)
                 .bidirectional(true)
                 .nonlinearity(kReLU))),
        "torch::nn::RNN(input_size=3, hidden_size=4, num_layers=2, bias=false, batch_first=true, "
        "dropout=0.5, bidirectional=true)");
  SHOWS((LSTM(3, 4)),
        "torch::nn::LSTM(input_size=3, hidden_size=4, num_layers=1, bias=true, batch_first=false, "
        "dropout=0, bidirectional=false)");
  SHOWS((LSTM(LSTMOptions(3, 4).proj_size(2).num_layers(2))),
        "torch::nn::LSTM(input_size=3, hidden_size=4, num_layers=2, bias=true, batch_first=false, "
        "dropout=0, bidirectional=false, proj_size=2)");
  SHOWS((GRU(3, 4)),
        "torch::nn::GRU(input_size=3, hidden_size=4, num_layers=1, bias=true, batch_first=false, "
        "dropout=0, bidirectional=false)");
  SHOWS((RNNCell(3, 4)), "torch::nn::RNNCell(3, 4)");
  SHOWS((RNNCell(RNNCellOptions(3, 4).bias(false).nonlinearity(kReLU))),
        "torch::nn::RNNCell(3, 4, bias=false, nonlinearity=kReLU)");
  SHOWS((LSTMCell(3, 4)), "torch::nn::LSTMCell(3, 4)");
  SHOWS((GRUCell(3, 4)), "torch::nn::GRUCell(3, 4)");
  SHOWS((Upsample(UpsampleOptions().scale_factor(std::vector<double>{2}).mode(kBilinear))),
        "torch::nn::Upsample(scale_factor=[2], mode=kBilinear)");
  SHOWS((Upsample(UpsampleOptions().size(std::vector<int64_t>{4, 3}))),
        "torch::nn::Upsample(size=[4, 3], mode=kNearest)");
  SHOWS((Functional(torch::relu)), "torch::nn::Functional()");
}

TEST(Text, OfModulesThatHoldOthers1) {
  SHOWS((MultiheadAttention(4, 2)),
        "torch::nn::MultiheadAttention(\n"
        "  (out_proj): torch::nn::Linear(in_features=4, out_features=4, bias=true)\n"
        ")");
}

TEST(Text, OfModulesThatHoldOthers2) {
  SHOWS((AdaptiveLogSoftmaxWithLoss(64, 10, std::vector<int64_t>{4, 8})),
        "torch::nn::AdaptiveLogSoftmaxWithLoss(\n"
        "  (head): torch::nn::Linear(in_features=64, out_features=6, bias=false)\n"
        "  (tail): torch::nn::ModuleList(\n"
        "    (0): torch::nn::Sequential(\n"
        "      (0): torch::nn::Linear(in_features=64, out_features=16, bias=false)\n"
        "      (1): torch::nn::Linear(in_features=16, out_features=4, bias=false)\n"
        "    )\n"
        "    (1): torch::nn::Sequential(\n"
        "      (0): torch::nn::Linear(in_features=64, out_features=4, bias=false)\n"
        "      (1): torch::nn::Linear(in_features=4, out_features=2, bias=false)\n"
        "    )\n"
        "  )\n"
        ")");
}

TEST(Text, OfModulesThatHoldOthers3) {
  SHOWS((AdaptiveLogSoftmaxWithLoss(
            AdaptiveLogSoftmaxWithLossOptions(64, 10, {4, 8}).div_value(2).head_bias(true))),
        "torch::nn::AdaptiveLogSoftmaxWithLoss(\n"
        "  (head): torch::nn::Linear(in_features=64, out_features=6, bias=true)\n"
        "  (tail): torch::nn::ModuleList(\n"
        "    (0): torch::nn::Sequential(\n"
        "      (0): torch::nn::Linear(in_features=64, out_features=32, bias=false)\n"
        "      (1): torch::nn::Linear(in_features=32, out_features=4, bias=false)\n"
        "    )\n"
        "    (1): torch::nn::Sequential(\n"
        "      (0): torch::nn::Linear(in_features=64, out_features=16, bias=false)\n"
        "      (1): torch::nn::Linear(in_features=16, out_features=2, bias=false)\n"
        "    )\n"
        "  )\n"
        ")");
}

TEST(Text, OfModulesThatHoldOthers4) {
  SHOWS((Sequential(Linear(1, 2), Functional(torch::relu), Dropout(0.5))),
        "torch::nn::Sequential(\n"
        "  (0): torch::nn::Linear(in_features=1, out_features=2, bias=true)\n"
        "  (1): torch::nn::Functional()\n"
        "  (2): torch::nn::Dropout(p=0.5, inplace=false)\n"
        ")");
}

TEST(Text, OfModulesThatHoldOthers5) {
  SHOWS((ModuleList(Linear(1, 2), ReLU())),
        "torch::nn::ModuleList(\n"
        "  (0): torch::nn::Linear(in_features=1, out_features=2, bias=true)\n"
        "  (1): torch::nn::ReLU()\n"
        ")");
}

TEST(Text, OfModulesThatHoldOthers6) {
  SHOWS((ParameterList(torch::ones({2, 3}), torch::ones({1}, torch::DType::float64))),
        "torch::nn::ParameterList(\n"
        "(0): Parameter containing: [Float of size [2, 3]]\n"
        "(1): Parameter containing: [Double of size [1]]\n"
        ")");
}

TEST(Text, OfModulesThatHoldOthers7) {
  SHOWS((Transformer(TransformerOptions(4, 2, 1, 1).dim_feedforward(8))),
        "torch::nn::TransformerImpl(\n"
        "  (encoder): torch::nn::TransformerEncoderImpl(\n"
        "    (layers): torch::nn::ModuleList(\n"
        "      (0): torch::nn::TransformerEncoderLayerImpl(\n"
        "        (self_attn): torch::nn::MultiheadAttention(\n"
        "          (out_proj): torch::nn::Linear(in_features=4, out_features=4, bias=true)\n"
        "        )\n"
        "        (linear1): torch::nn::Linear(in_features=4, out_features=8, bias=true)\n"
        "        (dropout): torch::nn::Dropout(p=0.1, inplace=false)\n"
        "        (linear2): torch::nn::Linear(in_features=8, out_features=4, bias=true)\n"
        "        (norm1): torch::nn::LayerNorm([4], eps=1e-05, elementwise_affine=true)\n"
        "        (norm2): torch::nn::LayerNorm([4], eps=1e-05, elementwise_affine=true)\n"
        "        (dropout1): torch::nn::Dropout(p=0.1, inplace=false)\n"
        "        (dropout2): torch::nn::Dropout(p=0.1, inplace=false)\n"
        "      )\n"
        "    )\n"
        "    (norm): torch::nn::LayerNorm([4], eps=1e-05, elementwise_affine=true)\n"
        "  )\n"
        "  (decoder): torch::nn::TransformerDecoderImpl(\n"
        "    (layers): torch::nn::ModuleList(\n"
        "      (0): torch::nn::TransformerDecoderLayerImpl(\n"
        "        (self_attn): torch::nn::MultiheadAttention(\n"
        "          (out_proj): torch::nn::Linear(in_features=4, out_features=4, bias=true)\n"
        "        )\n"
        "        (multihead_attn): torch::nn::MultiheadAttention(\n"
        "          (out_proj): torch::nn::Linear(in_features=4, out_features=4, bias=true)\n"
        "        )\n"
        "        (linear1): torch::nn::Linear(in_features=4, out_features=8, bias=true)\n"
        "        (dropout): torch::nn::Dropout(p=0.1, inplace=false)\n"
        "        (linear2): torch::nn::Linear(in_features=8, out_features=4, bias=true)\n"
        "        (norm1): torch::nn::LayerNorm([4], eps=1e-05, elementwise_affine=true)\n"
        "        (norm2): torch::nn::LayerNorm([4], eps=1e-05, elementwise_affine=true)\n"
        "        (norm3): torch::nn::LayerNorm([4], eps=1e-05, elementwise_affine=true)\n"
        "        (dropout1): torch::nn::Dropout(p=0.1, inplace=false)\n"
        "        (dropout2): torch::nn::Dropout(p=0.1, inplace=false)\n"
        "        (dropout3): torch::nn::Dropout(p=0.1, inplace=false)\n"
        "      )\n"
        "    )\n"
        "    (norm): torch::nn::LayerNorm([4], eps=1e-05, elementwise_affine=true)\n"
        "  )\n"
        ")");
}

TEST(Text, OfModulesThatHoldOthers8) {
  SHOWS((TransformerEncoder(
            TransformerEncoderOptions(
                TransformerEncoderLayer(TransformerEncoderLayerOptions(4, 2).dim_feedforward(8)), 2)
                .norm(AnyModule(LayerNorm(LayerNormOptions({4})))))),
        "torch::nn::TransformerEncoderImpl(\n"
        "  (layers): torch::nn::ModuleList(\n"
        "    (0): torch::nn::TransformerEncoderLayerImpl(\n"
        "      (self_attn): torch::nn::MultiheadAttention(\n"
        "        (out_proj): torch::nn::Linear(in_features=4, out_features=4, bias=true)\n"
        "      )\n"
        "      (linear1): torch::nn::Linear(in_features=4, out_features=8, bias=true)\n"
        "      (dropout): torch::nn::Dropout(p=0.1, inplace=false)\n"
        "      (linear2): torch::nn::Linear(in_features=8, out_features=4, bias=true)\n"
        "      (norm1): torch::nn::LayerNorm([4], eps=1e-05, elementwise_affine=true)\n"
        "      (norm2): torch::nn::LayerNorm([4], eps=1e-05, elementwise_affine=true)\n"
        "      (dropout1): torch::nn::Dropout(p=0.1, inplace=false)\n"
        "      (dropout2): torch::nn::Dropout(p=0.1, inplace=false)\n"
        "    )\n"
        "    (1): torch::nn::TransformerEncoderLayerImpl(\n"
        "      (self_attn): torch::nn::MultiheadAttention(\n"
        "        (out_proj): torch::nn::Linear(in_features=4, out_features=4, bias=true)\n"
        "      )\n"
        "      (linear1): torch::nn::Linear(in_features=4, out_features=8, bias=true)\n"
        "      (dropout): torch::nn::Dropout(p=0.1, inplace=false)\n"
        "      (linear2): torch::nn::Linear(in_features=8, out_features=4, bias=true)\n"
        "      (norm1): torch::nn::LayerNorm([4], eps=1e-05, elementwise_affine=true)\n"
        "      (norm2): torch::nn::LayerNorm([4], eps=1e-05, elementwise_affine=true)\n"
        "      (dropout1): torch::nn::Dropout(p=0.1, inplace=false)\n"
        "      (dropout2): torch::nn::Dropout(p=0.1, inplace=false)\n"
        "    )\n"
        "  )\n"
        "  (norm): torch::nn::LayerNorm([4], eps=1e-05, elementwise_affine=true)\n"
        ")");
}

}  // namespace
