// Undefines the row macros after a .def file has been read, so that the next reader defines its
// own.
#undef ROW_SLOT
#undef UNARY
#undef PREDICATE
#undef UNARY1
#undef UNARY2
#undef KERNEL2
#undef BINARY
#undef KERNEL
#undef COMPARE
#undef INTEGERS
#undef EITHER
#undef TENSORS
#undef FRESH
#undef LOGIC
#undef DISCRETE
