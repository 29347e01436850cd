// Names that public programs written for libtorch use. That
// they are there is all that is tested here: it compiles.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "flambeau/api/cuda.h"
#include "flambeau/api/profiler.h"

namespace {

namespace names_of_torch {
using ::torch::Tensor, ::torch::kCPU, ::torch::kCUDA, ::torch::Device, ::torch::from_blob,
    ::torch::cuda::is_available, ::torch::zeros, ::torch::NoGradGuard, ::torch::tensor,
    ::torch::relu, ::torch::TensorOptions, ::torch::cat, ::torch::kFloat32, ::torch::save,
    ::torch::ones, ::torch::kFloat, ::torch::rand, ::torch::manual_seed, ::torch::full,
    ::torch::stack, ::torch::empty, ::torch::load, ::torch::optional, ::torch::exp, ::torch::matmul,
    ::torch::kLong, ::torch::randn, ::torch::arange, ::torch::zeros_like, ::torch::indexing::Slice,
    ::torch::kInt64, ::torch::sigmoid, ::torch::clamp, ::torch::max, ::torch::kByte, ::torch::log,
    ::torch::min, ::torch::softmax, ::torch::kBool, ::torch::indexing::None, ::torch::sum,
    ::torch::tanh, ::torch::randint, ::torch::mse_loss, ::torch::kFloat64, ::torch::pow,
    ::torch::ones_like, ::torch::sqrt, ::torch::log_softmax, ::torch::DeviceType, ::torch::sin,
    ::torch::where, ::torch::argmax, ::torch::cos, ::torch::requires_grad, ::torch::mean,
    ::torch::max_pool2d, ::torch::kUInt8, ::torch::kInt32, ::torch::cuda::device_count,
    ::torch::abs, ::torch::mm, ::torch::linspace, ::torch::eye, ::torch::multinomial, ::torch::sort,
    ::torch::cumsum, ::torch::kInt, ::torch::indexing::Ellipsis, ::torch::full_like, ::torch::triu,
    ::torch::nll_loss, ::torch::dot, ::torch::dropout, ::torch::cuda::cudnn_is_available,
    ::torch::dtype, ::torch::randperm, ::torch::meshgrid, ::torch::IntArrayRef, ::torch::randn_like,
    ::torch::kNearest, ::torch::kSum, ::torch::kFanOut, ::torch::kU8, ::torch::binary_cross_entropy,
    ::torch::reshape, ::torch::globalContext, ::torch::kDouble, ::torch::add, ::torch::AutoGradMode,
    ::torch::argsort, ::torch::kBilinear, ::torch::topk, ::torch::kReLU, ::torch::square,
    ::torch::norm, ::torch::kF32, ::torch::kMPS, ::torch::rand_like, ::torch::OrderedDict,
    ::torch::ScalarType, ::torch::gather, ::torch::TensorList, ::torch::diag, ::torch::isnan,
    ::torch::normal, ::torch::kMean, ::torch::cuda::synchronize, ::torch::kNone,
    ::torch::repeat_interleave, ::torch::bmm, ::torch::nonzero, ::torch::squeeze,
    ::torch::index_select, ::torch::kFloat16, ::torch::one_hot, ::torch::Error, ::torch::Scalar,
    ::torch::floor, ::torch::ArrayRef, ::torch::Dtype, ::torch::atan, ::torch::broadcast_tensors,
    ::torch::constant_pad_nd, ::torch::cross, ::torch::linalg_inv, ::torch::ExpandingArray,
    ::torch::IValue, ::torch::MemoryFormat::Contiguous, ::torch::any, ::torch::argmin,
    ::torch::avg_pool2d, ::torch::cdist, ::torch::conv2d, ::torch::cuda::manual_seed_all,
    ::torch::empty_like, ::torch::flip, ::torch::kHalf, ::torch::kInt8, ::torch::kStrided,
    ::torch::leaky_relu, ::torch::logsumexp, ::torch::nan_to_num, ::torch::pickle_load,
    ::torch::sign, ::torch::split, ::torch::str, ::torch::transpose, ::torch::vstack,
    ::torch::unsqueeze, ::torch::concat, ::torch::_sample_dirichlet, ::torch::acos,
    ::torch::cumprod, ::torch::kFanIn, ::torch::kLeakyReLU, ::torch::adaptive_avg_pool2d,
    ::torch::softplus, ::torch::kReflect, ::torch::mul, ::torch::mv, ::torch::InferenceMode,
    ::torch::add_out, ::torch::flatten, ::torch::getNumGPUs, ::torch::kF64, ::torch::linalg::svd,
    ::torch::linalg_cholesky, ::torch::log1p, ::torch::pad, ::torch::reflection_pad2d,
    ::torch::unique_dim, ::torch::DeviceIndex, ::torch::DeviceType::XLA, ::torch::Dtype::Float,
    ::torch::Layout, ::torch::Reduction::Reduction, ::torch::Reduction::Reduction::Mean,
    ::torch::Reduction::Reduction::Sum, ::torch::TensorAccessor,
    ::torch::_amp_foreach_non_finite_check_and_unscale_, ::torch::all, ::torch::bernoulli,
    ::torch::binary_cross_entropy_with_logits, ::torch::ceil, ::torch::clamp_min, ::torch::clip,
    ::torch::complex, ::torch::concatenate, ::torch::conj, ::torch::cross_entropy_loss,
    ::torch::cuda::getDeviceProperties, ::torch::det, ::torch::device, ::torch::einsum,
    ::torch::elementSize, ::torch::elu, ::torch::fft::fft2, ::torch::fft::fftn, ::torch::fmod,
    ::torch::gelu, ::torch::get_num_threads, ::torch::gt, ::torch::hasCUDA, ::torch::hasMPS,
    ::torch::hasXLA, ::torch::hstack, ::torch::imag, ::torch::indexing::TensorIndex,
    ::torch::inverse, ::torch::isFloatingType, ::torch::isIntegralType, ::torch::isfinite,
    ::torch::isinf, ::torch::kArea, ::torch::kBFloat16, ::torch::kComplexFloat, ::torch::kInt16,
    ::torch::kReplicate, ::torch::kTrilinear, ::torch::kUInt16, ::torch::kUInt32, ::torch::kUInt64,
    ::torch::kXLA, ::torch::kZeros, ::torch::kron, ::torch::linalg_cross, ::torch::linalg_eig,
    ::torch::linalg_lu_factor, ::torch::linalg_qr, ::torch::linalg_vector_norm, ::torch::log2,
    ::torch::logical_not, ::torch::logit, ::torch::lu_unpack, ::torch::masked_select,
    ::torch::maximum, ::torch::minimum, ::torch::nll_loss2d, ::torch::not_equal, ::torch::numel,
    ::torch::outer, ::torch::pickle_save, ::torch::prod, ::torch::randperm_out, ::torch::range,
    ::torch::real, ::torch::relu_, ::torch::remainder, ::torch::replication_pad2d, ::torch::roll,
    ::torch::rot90, ::torch::round, ::torch::rsqrt, ::torch::scalar_tensor, ::torch::searchsorted,
    ::torch::set_num_threads, ::torch::silu, ::torch::smooth_l1_loss, ::torch::std, ::torch::sub,
    ::torch::toString, ::torch::tril, ::torch::unbind, ::torch::upsample_nearest1d,
    ::torch::upsample_nearest2d;
}

namespace names_of_torch1 {
using ::torch::mps::is_available, ::torch::cuda::manual_seed, ::torch::Reduction::Sum;
}

namespace names_of_at {
using ::at::Tensor, ::at::TensorOptions, ::at::globalContext, ::at::kFloat, ::at::cuda::CUDAGraph,
    ::at::normal, ::at::cuda::CUDAEvent, ::at::cuda::CUDAStream, ::at::ArrayRef,
    ::at::TensorAccessor, ::at::cuda::getCurrentCUDAStream, ::at::cuda::getStreamFromPool,
    ::at::kCPU, ::at::kLong, ::at::_unique2, ::at::indexing::Slice,
    ::at::AutoDispatchBelowADInplaceOrView, ::at::CheckedFrom, ::at::DataPtr, ::at::DeviceGuard,
    ::at::Float32MatmulPrecision::HIGH, ::at::Float32MatmulPrecision::HIGHEST,
    ::at::Float32MatmulPrecision::MEDIUM, ::at::GenericPackedTensorAccessor, ::at::IntArrayRef,
    ::at::RestrictPtrTraits, ::at::ScalarType, ::at::ScalarType::Long, ::at::SymIntArrayRef,
    ::at::autocast::clear_cache, ::at::autocast::set_autocast_dtype,
    ::at::autocast::set_autocast_enabled, ::at::cat, ::at::cos, ::at::cuda::CUDAGuard,
    ::at::cuda::getCurrentDeviceProperties, ::at::cuda::setCurrentCUDAStream, ::at::empty,
    ::at::exp, ::at::kBool, ::at::kByte, ::at::kInt, ::at::ones, ::at::ones_like, ::at::optional,
    ::at::set_num_threads, ::at::sin, ::at::split, ::at::triu, ::at::upsample_nearest2d,
    ::at::zeros, ::at::zeros_like;
}

namespace names_of_c10 {
using ::c10::Error, ::c10::nullopt, ::c10::optional, ::c10::ArrayRef, ::c10::Dict, ::c10::IValue,
    ::c10::irange, ::c10::OptionalArrayRef, ::c10::Half, ::c10::Backend::CPU,
    ::c10::CppTypeToScalarType, ::c10::DeviceType, ::c10::IntArrayRef, ::c10::Scalar,
    ::c10::ScalarType, ::c10::SymInt, ::c10::TensorOptions, ::c10::cuda::CUDAGuard,
    ::c10::cuda::CUDAStreamGuard, ::c10::impl::ScalarTypeToCPPType, ::c10::intrusive_ptr,
    ::c10::make_intrusive;
}

struct Methods : torch::Tensor {
  using torch::Tensor::size, torch::Tensor::item, torch::Tensor::backward, torch::Tensor::sizes,
      torch::Tensor::view, torch::Tensor::data, torch::Tensor::sum, torch::Tensor::unsqueeze,
      torch::Tensor::device, torch::Tensor::data_ptr, torch::Tensor::dtype, torch::Tensor::index,
      torch::Tensor::stride, torch::Tensor::squeeze, torch::Tensor::detach, torch::Tensor::argmax,
      torch::Tensor::permute, torch::Tensor::mean, torch::Tensor::reshape, torch::Tensor::options,
      torch::Tensor::slice, torch::Tensor::requires_grad, torch::Tensor::dim, torch::Tensor::numel,
      torch::Tensor::pow, torch::Tensor::transpose, torch::Tensor::contiguous,
      torch::Tensor::expand, torch::Tensor::grad, torch::Tensor::clamp, torch::Tensor::eq,
      torch::Tensor::cpu, torch::Tensor::t, torch::Tensor::norm, torch::Tensor::index_put_,
      torch::Tensor::flatten, torch::Tensor::toType, torch::Tensor::repeat,
      torch::Tensor::requires_grad_, torch::Tensor::copy_, torch::Tensor::add,
      torch::Tensor::select, torch::Tensor::fill_, torch::Tensor::exp, torch::Tensor::is_cuda,
      torch::Tensor::index_select, torch::Tensor::max, torch::Tensor::mul, torch::Tensor::mul_,
      torch::Tensor::add_, torch::Tensor::name, torch::Tensor::mm, torch::Tensor::set_requires_grad,
      torch::Tensor::div_, torch::Tensor::div, torch::Tensor::gather, torch::Tensor::matmul,
      torch::Tensor::expand_as, torch::Tensor::narrow, torch::Tensor::abs, torch::Tensor::mode,
      torch::Tensor::masked_fill, torch::Tensor::min, torch::Tensor::reset, torch::Tensor::normal_,
      torch::Tensor::all, torch::Tensor::clamp_, torch::Tensor::accessor, torch::Tensor::std,
      torch::Tensor::log, torch::Tensor::uniform_, torch::Tensor::is_cpu,
      torch::Tensor::masked_select, torch::Tensor::chunk, torch::Tensor::sort,
      torch::Tensor::grad_fn, torch::Tensor::zero_, torch::Tensor::split,
      torch::Tensor::masked_fill_, torch::Tensor::squeeze_, torch::Tensor::softmax,
      torch::Tensor::multinomial, torch::Tensor::nonzero, torch::Tensor::cumsum,
      torch::Tensor::scatter_, torch::Tensor::unsqueeze_, torch::Tensor::sqrt,
      torch::Tensor::square, torch::Tensor::cuda, torch::Tensor::layout, torch::Tensor::scalar_type,
      torch::Tensor::topk, torch::Tensor::view_as, torch::Tensor::detach_,
      torch::Tensor::repeat_interleave, torch::Tensor::pin_memory, torch::Tensor::clamp_min,
      torch::Tensor::relu, torch::Tensor::tanh, torch::Tensor::is_floating_point,
      torch::Tensor::var, torch::Tensor::clamp_max, torch::Tensor::flip,
      torch::Tensor::split_with_sizes, torch::Tensor::element_size, torch::Tensor::exp_,
      torch::Tensor::ndimension, torch::Tensor::new_zeros, torch::Tensor::sub, torch::Tensor::sub_,
      torch::Tensor::any, torch::Tensor::diagonal, torch::Tensor::equal, torch::Tensor::get_device,
      torch::Tensor::is_contiguous, torch::Tensor::prod, torch::Tensor::put,
      torch::Tensor::set_data, torch::Tensor::sigmoid, torch::Tensor::swapaxes,
      torch::Tensor::inverse, torch::Tensor::retain_grad, torch::Tensor::diag, torch::Tensor::triu,
      torch::Tensor::dot, torch::Tensor::logical_not, torch::Tensor::unfold, torch::Tensor::_values,
      torch::Tensor::addcmul_, torch::Tensor::addmm_, torch::Tensor::bernoulli_,
      torch::Tensor::bitwise_and, torch::Tensor::coalesce, torch::Tensor::const_data_ptr,
      torch::Tensor::count_nonzero, torch::Tensor::cumprod, torch::Tensor::divide_,
      torch::Tensor::eq_, torch::Tensor::erfinv_, torch::Tensor::gt, torch::Tensor::is_alias_of,
      torch::Tensor::is_leaf, torch::Tensor::is_sparse, torch::Tensor::lerp,
      torch::Tensor::log_softmax, torch::Tensor::logsumexp, torch::Tensor::mH,
      torch::Tensor::mutable_grad, torch::Tensor::ne, torch::Tensor::ravel,
      torch::Tensor::reciprocal, torch::Tensor::relu_, torch::Tensor::resize_,
      torch::Tensor::sigmoid_, torch::Tensor::transpose_, torch::Tensor::type_as,
      torch::Tensor::unflatten, torch::Tensor::unsafeGetTensorImpl;
};

namespace names_of_nn {
using ::torch::nn::Linear, ::torch::nn::Module, ::torch::nn::Conv2d, ::torch::nn::Conv2dOptions,
    ::torch::nn::Sequential, ::torch::nn::ReLU, ::torch::nn::BatchNorm2d, ::torch::nn::Dropout,
    ::torch::nn::LinearOptions, ::torch::nn::MaxPool2d, ::torch::nn::Sigmoid, ::torch::nn::MSELoss,
    ::torch::nn::MaxPool2dOptions, ::torch::nn::CrossEntropyLoss, ::torch::nn::AdaptiveAvgPool2d,
    ::torch::nn::AdaptiveAvgPool2dOptions, ::torch::nn::Embedding, ::torch::nn::ModuleList,
    ::torch::nn::LeakyReLU, ::torch::nn::LeakyReLUOptions, ::torch::nn::DropoutOptions,
    ::torch::nn::LinearImpl, ::torch::nn::Conv2dImpl, ::torch::nn::ReLUOptions,
    ::torch::nn::Flatten, ::torch::nn::LayerNorm, ::torch::nn::LayerNormOptions,
    ::torch::nn::BatchNorm2dOptions, ::torch::nn::EmbeddingOptions, ::torch::nn::Tanh,
    ::torch::nn::ConvTranspose2d, ::torch::nn::ConvTranspose2dOptions, ::torch::nn::LSTM,
    ::torch::nn::LSTMOptions, ::torch::nn::AvgPool2d, ::torch::nn::ConvTranspose2dImpl,
    ::torch::nn::BCEWithLogitsLoss, ::torch::nn::Identity, ::torch::nn::SequentialImpl,
    ::torch::nn::AvgPool2dOptions, ::torch::nn::SiLU, ::torch::nn::Functional, ::torch::nn::GELU,
    ::torch::nn::ModuleHolder, ::torch::nn::UpsampleOptions, ::torch::nn::Upsample,
    ::torch::nn::BatchNorm2dImpl, ::torch::nn::MSELossOptions, ::torch::nn::CrossEntropyLossOptions,
    ::torch::nn::L1Loss, ::torch::nn::L1LossOptions, ::torch::nn::NLLLoss,
    ::torch::nn::NLLLossOptions, ::torch::nn::BCEWithLogitsLossOptions,
    ::torch::nn::AdaptiveMaxPool2d, ::torch::nn::AdaptiveMaxPool2dOptions, ::torch::nn::Softmax,
    ::torch::nn::LayerNormImpl, ::torch::nn::Dropout2d, ::torch::nn::BatchNorm1d,
    ::torch::nn::BatchNormOptions, ::torch::nn::Conv1d, ::torch::nn::Conv1dOptions,
    ::torch::nn::GroupNorm, ::torch::nn::GroupNormOptions, ::torch::nn::InstanceNorm2d,
    ::torch::nn::InstanceNorm2dImpl, ::torch::nn::PReLU, ::torch::nn::PixelShuffle,
    ::torch::nn::ReflectionPad2d, ::torch::nn::GRU, ::torch::nn::GRUImpl, ::torch::nn::GRUOptions,
    ::torch::nn::ELU, ::torch::nn::ELUOptions, ::torch::nn::GLU, ::torch::nn::GLUOptions,
    ::torch::nn::ZeroPad2d, ::torch::nn::ZeroPad2dOptions, ::torch::nn::Dropout2dOptions,
    ::torch::nn::LSTMCell, ::torch::nn::LSTMCellOptions, ::torch::nn::RNN,
    ::torch::nn::AdaptiveAvgPool1d, ::torch::nn::AnyModule, ::torch::nn::BatchNorm1dOptions,
    ::torch::nn::Cloneable, ::torch::nn::Conv1dImpl, ::torch::nn::Conv3d,
    ::torch::nn::Conv3dOptions, ::torch::nn::ConvTranspose3d, ::torch::nn::ConvTranspose3dOptions,
    ::torch::nn::EmbeddingImpl, ::torch::nn::FlattenOptions, ::torch::nn::InstanceNorm2dOptions,
    ::torch::nn::KLDivLoss, ::torch::nn::KLDivLossOptions, ::torch::nn::LocalResponseNorm,
    ::torch::nn::LocalResponseNormOptions, ::torch::nn::MaxUnpool2d,
    ::torch::nn::MaxUnpool2dOptions, ::torch::nn::ModuleDict, ::torch::nn::MultiheadAttention,
    ::torch::nn::ReflectionPad2dOptions, ::torch::nn::SoftmaxOptions, ::torch::nn::Transformer,
    ::torch::nn::TransformerOptions;
}

namespace names_of_nn_functional {
using ::torch::nn::functional::cross_entropy, ::torch::nn::functional::relu,
    ::torch::nn::functional::softmax, ::torch::nn::functional::log_softmax,
    ::torch::nn::functional::InterpolateFuncOptions, ::torch::nn::functional::interpolate,
    ::torch::nn::functional::CrossEntropyFuncOptions, ::torch::nn::functional::conv2d,
    ::torch::nn::functional::pad, ::torch::nn::functional::Conv2dFuncOptions,
    ::torch::nn::functional::PadFuncOptions, ::torch::nn::functional::mse_loss,
    ::torch::nn::functional::NormalizeFuncOptions, ::torch::nn::functional::normalize,
    ::torch::nn::functional::BinaryCrossEntropyWithLogitsFuncOptions,
    ::torch::nn::functional::binary_cross_entropy_with_logits, ::torch::nn::functional::one_hot,
    ::torch::nn::functional::nll_loss, ::torch::nn::functional::softplus,
    ::torch::nn::functional::DropoutFuncOptions, ::torch::nn::functional::dropout,
    ::torch::nn::functional::binary_cross_entropy,
    ::torch::nn::functional::BinaryCrossEntropyFuncOptions,
    ::torch::nn::functional::AdaptiveAvgPool2dFuncOptions,
    ::torch::nn::functional::AvgPool2dFuncOptions, ::torch::nn::functional::FoldFuncOptions,
    ::torch::nn::functional::LeakyReLUFuncOptions, ::torch::nn::functional::NLLLossFuncOptions,
    ::torch::nn::functional::SoftmaxFuncOptions, ::torch::nn::functional::UnfoldFuncOptions,
    ::torch::nn::functional::adaptive_avg_pool2d, ::torch::nn::functional::avg_pool2d,
    ::torch::nn::functional::embedding, ::torch::nn::functional::fold,
    ::torch::nn::functional::leaky_relu, ::torch::nn::functional::linear,
    ::torch::nn::functional::silu, ::torch::nn::functional::unfold;
}

namespace names_of_nn_init {
using ::torch::nn::init::constant_, ::torch::nn::init::normal_, ::torch::nn::init::kaiming_normal_,
    ::torch::nn::init::zeros_, ::torch::nn::init::xavier_uniform_,
    ::torch::nn::init::xavier_normal_, ::torch::nn::init::kaiming_uniform_,
    ::torch::nn::init::orthogonal_, ::torch::nn::init::uniform_, ::torch::nn::init::ones_,
    ::torch::nn::init::_calculate_fan_in_and_fan_out;
}

namespace names_of_nn_utils {
using ::torch::nn::utils::clip_grad_norm_, ::torch::nn::utils::rnn::pack_padded_sequence;
}

namespace names_of_optim {
using ::torch::optim::Adam, ::torch::optim::AdamOptions, ::torch::optim::SGD,
    ::torch::optim::Optimizer, ::torch::optim::SGDOptions, ::torch::optim::AdamW,
    ::torch::optim::AdamWOptions, ::torch::optim::RMSprop, ::torch::optim::OptimizerParamGroup,
    ::torch::optim::Adagrad, ::torch::optim::RMSpropOptions, ::torch::optim::StepLR,
    ::torch::optim::AdagradOptions, ::torch::optim::LBFGS, ::torch::optim::LBFGSOptions,
    ::torch::optim::LRScheduler, ::torch::optim::OptimizerCloneableOptions,
    ::torch::optim::OptimizerOptions;
}

namespace names_of_data {
using ::torch::data::make_data_loader, ::torch::data::transforms::Stack, ::torch::data::Example,
    ::torch::data::samplers::RandomSampler, ::torch::data::DataLoaderOptions,
    ::torch::data::transforms::Normalize, ::torch::data::datasets::MNIST,
    ::torch::data::datasets::Dataset, ::torch::data::samplers::SequentialSampler,
    ::torch::data::StatelessDataLoader, ::torch::data::transforms::Collation,
    ::torch::data::datasets::MapDataset, ::torch::data::samplers::DistributedRandomSampler;
}

namespace names_of_data_too {
using ::torch::data::Dataset;  // the same class by its other name
}

namespace names_of_autograd {
using ::torch::autograd::variable_list, ::torch::autograd::AutogradContext,
    ::torch::autograd::Function, ::torch::autograd::Variable, ::torch::autograd::grad,
    ::torch::autograd::profiler::ProfilerConfig, ::torch::autograd::profiler::disableProfiler,
    ::torch::autograd::profiler::enableProfiler, ::torch::autograd::profiler::prepareProfiler;
}

namespace names_of_serialize {
using ::torch::serialize::OutputArchive, ::torch::serialize::InputArchive;
}

struct ModuleMethods : torch::nn::Module {
  using torch::nn::Module::to, torch::nn::Module::parameters, torch::nn::Module::zero_grad,
      torch::nn::Module::register_module, torch::nn::Module::eval, torch::nn::Module::train,
      torch::nn::Module::clone, torch::nn::Module::named_parameters, torch::nn::Module::apply,
      torch::nn::Module::register_parameter, torch::nn::Module::save,
      torch::nn::Module::is_training, torch::nn::Module::register_buffer, torch::nn::Module::load,
      torch::nn::Module::named_buffers, torch::nn::Module::named_children,
      torch::nn::Module::modules, torch::nn::Module::buffers, torch::nn::Module::named_modules,
      torch::nn::Module::replace_module, torch::nn::Module::children;
};

#ifndef TORCH_MODULE
#error "TORCH_MODULE is missing"
#endif

#ifndef TORCH_CHECK
#error "TORCH_CHECK is missing"
#endif

#ifndef AT_ASSERT
#error "AT_ASSERT is missing"
#endif

#ifndef AT_DISPATCH_FLOATING_TYPES_AND2
#error "AT_DISPATCH_FLOATING_TYPES_AND2 is missing"
#endif

#ifndef AT_DISPATCH_FLOATING_TYPES_AND_HALF
#error "AT_DISPATCH_FLOATING_TYPES_AND_HALF is missing"
#endif

#ifndef C10_CONCATENATE
#error "C10_CONCATENATE is missing"
#endif

#ifndef C10_LOG_API_USAGE_ONCE
#error "C10_LOG_API_USAGE_ONCE is missing"
#endif

#ifndef C10_STRINGIZE
#error "C10_STRINGIZE is missing"
#endif

#ifndef TORCH_ARG
#error "TORCH_ARG is missing"
#endif

#ifndef TORCH_WARN
#error "TORCH_WARN is missing"
#endif

// Members, by what they are.
using StepClosure = torch::optim::Optimizer::LossClosure;
using PaddingMode = torch::nn::Conv2dOptions::padding_mode_t;
constexpr auto modes = {torch::data::datasets::MNIST::Mode::kTrain,
                        torch::data::datasets::MNIST::Mode::kTest};
constexpr auto states = {torch::autograd::profiler::ProfilerState::KINETO};
constexpr auto activities = {torch::autograd::profiler::ActivityType::CPU,
                             torch::autograd::profiler::ActivityType::CUDA};
constexpr auto scopes = {torch::RecordScope::FUNCTION, torch::RecordScope::USER_SCOPE};
constexpr void (*set_grad_mode)(bool) = torch::autograd::GradMode::set_enabled;
constexpr void (*set_anomaly_mode)(bool, bool) = torch::autograd::AnomalyMode::set_enabled;

TEST(Names, AreThere) { EXPECT_TRUE((std::is_base_of_v<torch::Tensor, Methods>)); }

}  // namespace
