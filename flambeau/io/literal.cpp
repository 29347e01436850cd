#include <charconv>

#include "flambeau/io/formats.h"

namespace flambeau::io {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  IValue run() {
    IValue result = value();
    CHECK(next() == '\0' && at_ == text_.size(), ValueError, "something stands behind the value");
    return result;
  }

 private:
  char next() {  // the first letter that is no space
    while (at_ < text_.size() &&
           std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
      ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool skip(char letter) {
    const bool found = next() == letter && at_ < text_.size();
    at_ += found;
    return found;
  }
  void expect(char letter) {
    CHECK(skip(letter), ValueError, "'{}' is missing at letter {}", std::string(1, letter), at_);
  }

  IValue value() {
    constexpr int deepest = 64;
    CHECK(++depth_ < deepest, ValueError, "values lie too deep in one another");
    IValue result;
    switch (next()) {
      case '{': result = dict(); break;
      case '[': result = items('[', ']', IValue::Tag::GenericList); break;
      case '(': result = items('(', ')', IValue::Tag::Tuple); break;
      case '"':
      case '\'': result = string(); break;
      default: result = word();
    }
    --depth_;
    return result;
  }

  IValue items(char open, char close, IValue::Tag tag) {
    expect(open);
    std::vector<IValue> found;
    while (!skip(close)) {
      found.push_back(value());
      if (!skip(',')) {
        expect(close);
        break;
      }
    }
    return IValue::of(tag, std::move(found));
  }

  IValue dict() {
    expect('{');
    IValue made = IValue::dict();
    while (!skip('}')) {
      const std::string key = string();
      CHECK(!made.pairs().find(key), ValueError, "a key is given twice: {}", key);
      expect(':');
      made.pairs().set(key, value());
      if (!skip(',')) {
        expect('}');
        break;
      }
    }
    return made;
  }

  std::string string() {
    const char quote = next();
    CHECK(quote == '"' || quote == '\'', ValueError, "a string is missing at letter {}", at_);
    std::string made;
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      CHECK(static_cast<uint8_t>(text_[at_]) >= 0x20, ValueError,
            "a string holds a control letter");
      if (text_[at_] == '\\') {
        escape(made);
      } else {
        made += text_[at_];
      }
    }
    CHECK(at_ < text_.size(), ValueError, "a string does not end");
    ++at_;
    return made;
  }

  void escape(std::string& made) {
    constexpr std::string_view letters = "\"'\\/bfnrt", meanings = "\"'\\/\b\f\n\r\t";
    const char letter = ++at_ < text_.size() ? text_[at_] : '\0';
    const size_t known = letters.find(letter);
    if (known != std::string_view::npos && letter) {
      made += meanings[known];
      return;
    }
    CHECK(letter == 'u', ValueError, "an unknown escape at letter {}", at_);
    uint32_t code = hexadecimal();
    if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_ + 1, 2) == "\\u") {
      at_ += 2;
      code = 0x10000 + ((code - 0xD800) << 10) + (hexadecimal() - 0xDC00);
    }
    const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    constexpr uint8_t heads[] = {0, 0xC0, 0xE0, 0xF0};
    made += static_cast<char>(heads[more] | code >> (6 * more));
    for (int k = more; k-- > 0;) made += static_cast<char>(0x80 | (code >> (6 * k) & 0x3F));
  }

  uint32_t hexadecimal() {
    uint32_t code = 0;
    const std::string_view digits = text_.substr(std::min(at_ + 1, text_.size()), 4);
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), code, 16);
    CHECK(digits.size() == 4 && error == std::errc() && end == digits.end(), ValueError,
          "an unknown escape at letter {}", at_);
    at_ += 4;
    return code;
  }

  IValue word() {
    const size_t end = std::min(text_.find_first_of(" \t\r\n,:]})", at_), text_.size());
    const std::string_view text = text_.substr(at_, end - at_);
    at_ = end;
    if (text == "true" || text == "True") return true;
    if (text == "false" || text == "False") return false;
    if (text == "null" || text == "None") return {};
    int64_t whole = 0;
    double real = 0;
    const char *first = text.data(), *last = first + text.size();
    if (const auto [stop, error] = std::from_chars(first, last, whole);
        error == std::errc() && stop == last)
      return whole;
    if (const auto [stop, error] = std::from_chars(first, last, real);
        error == std::errc() && stop == last)
      return real;
    fail<ValueError>("no value: {}", text.substr(0, 40));
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

IValue parse_literal(std::string_view text) { return Parser(text).run(); }

}  // namespace flambeau::io
