#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <string>
#include <string_view>
#include <utility>

namespace hurray {

/// Writes one JSON text, front to back. Whoever calls it keeps to the grammar; commas come by themselves.
class JsonWriter {
  public:
    JsonWriter& begin_object() { return open('{'); }
    JsonWriter& end_object() { return close('}'); }
    JsonWriter& begin_array() { return open('['); }
    JsonWriter& end_array() { return close(']'); }

    JsonWriter& key(std::string_view name) {
        quote(name);
        text_ += ':';
        after_value_ = false;
        return *this;
    }

    JsonWriter& null() { return raw("null"); }
    JsonWriter& value(bool truth) { return raw(truth ? "true" : "false"); }
    JsonWriter& value(std::string_view text) {
        quote(text);
        return *this;
    }
    JsonWriter& value(const char* text) { return value(std::string_view(text)); }

    template <std::integral T>
        requires(!std::same_as<T, bool>)
    JsonWriter& value(T number) {
        std::array<char, 24> digits{};
        const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
        return raw({digits.data(), static_cast<std::size_t>(end - digits.data())});
    }

    /// The shortest digits that read back as the same number; "nan", "inf", "-inf" where JSON has no number.
    template <std::floating_point T>
    JsonWriter& value(T number) {
        if (std::isnan(number)) {
            return value("nan");
        }
        if (std::isinf(number)) {
            return value(number > 0 ? "inf" : "-inf");
        }
        std::array<char, 40> digits{};
        const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
        return raw({digits.data(), static_cast<std::size_t>(end - digits.data())});
    }

    template <class T>
    JsonWriter& member(std::string_view name, const T& content) {
        return key(name).value(content);
    }

    [[nodiscard]] std::string text() && { return std::move(text_); }

  private:
    JsonWriter& open(char bracket) {
        separate();
        text_ += bracket;
        after_value_ = false;
        return *this;
    }
    JsonWriter& close(char bracket) {
        text_ += bracket;
        after_value_ = true;
        return *this;
    }
    JsonWriter& raw(std::string_view token) {
        separate();
        text_ += token;
        after_value_ = true;
        return *this;
    }
    void separate() {
        if (after_value_) {
            text_ += ',';
        }
    }
    /// `text` is UTF-8; of that, JSON wants quotes, backslashes and control characters escaped.
    void quote(std::string_view text) {
        constexpr std::string_view kDigits = "0123456789abcdef";
        separate();
        text_ += '"';
        for (const char c : text) {
            const auto byte = static_cast<unsigned char>(c);
            if (c == '"' || c == '\\') {
                text_ += '\\';
                text_ += c;
            } else if (byte < 0x20) {
                text_ += "\\u00";
                text_ += kDigits[byte >> 4U];
                text_ += kDigits[byte & 15U];
            } else {
                text_ += c;
            }
        }
        text_ += '"';
        after_value_ = true;
    }

    std::string text_;
    bool after_value_ = false;
};

}  // namespace hurray
