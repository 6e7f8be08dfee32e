#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hurrayctl {

/// Says on stderr what went wrong.
void complain(const std::string& message);

/// "0 B", "1023 B", "1.5 MiB".
std::string human_bytes(std::uint64_t bytes);

/// "42 s", "3 min 7 s", "5 h 12 min", "3 d 4 h".
std::string human_duration(std::uint64_t milliseconds);

/// The name of a user or group of this system, or its number where it has none.
std::string user_text(std::uint32_t uid);
std::string group_text(std::uint32_t gid);

/// Lower-case hex.
std::string hex(std::span<const std::uint8_t> bytes);

/// As JSON carries bytes in protobuf's mapping.
std::string base64(std::span<const std::uint8_t> bytes);

/// The choice that somebody meant who typed `word`: one that begins with it, or is at most two letters away; else empty.
std::string closest(std::string_view word, std::span<const std::string> choices);

/// `text`, which is UTF-8, with '?' for each control character: fit for a terminal, whoever wrote it.
std::string printable(std::string_view text);

/// Columns of a terminal that a UTF-8 text takes.
std::size_t display_width(std::string_view text);

/// A table for people: two spaces between columns, headings in the first line.
class Table {
  public:
    enum class Align { Left, Right };
    struct Column {
        std::string heading;
        Align align = Align::Left;
    };

    explicit Table(std::vector<Column> columns);

    /// As many cells as there are columns.
    void add(std::vector<std::string> cells);

    void print(std::ostream& out) const;

  private:
    std::vector<Column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace hurrayctl
