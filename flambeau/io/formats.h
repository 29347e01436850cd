// Other libraries' files of tensors: safetensors, a header of JSON and the bytes of tensors, and
// NumPy's .npy. Headers are parsed as literals, never evaluated; one that does not describe exactly
// the bytes that follow is refused.
#pragma once

#include <string>
#include <string_view>

#include "flambeau/io/stream.h"
#include "flambeau/io/value.h"

namespace flambeau::io {

// Numbers, strings, lists, tuples and dicts as Python and JSON write them. Raises ValueError.
IValue parse_literal(std::string_view text);

// A dict of contiguous tensors, none of which share memory, and one of strings to keep with them.
void save_safetensors(const IValue& tensors, const IValue& metadata, Sink& sink);
void save_safetensors(const IValue& tensors, const std::string& path);
IValue load_safetensors(Source& source, IValue* metadata = nullptr);  // a dict of tensors
IValue safetensors_metadata(Source& source);                          // a dict of strings

void save_npy(const Tensor& tensor, Sink& sink);
void save_npy(const Tensor& tensor, const std::string& path);
Tensor load_npy(Source& source, uint64_t start = 0);

}  // namespace flambeau::io
