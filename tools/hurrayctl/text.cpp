#include "text.hpp"

#include <grp.h>
#include <pwd.h>
#include <wchar.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <numeric>
#include <utility>

namespace hurrayctl {

void complain(const std::string& message) { std::cerr << "hurrayctl: " << message << '\n'; }

std::string human_bytes(std::uint64_t bytes) {
    constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        return std::to_string(bytes) + " B";
    }
    double value = static_cast<double>(bytes) / 1024;
    std::size_t unit = 0;
    // What would be printed as 1024.0 belongs to the next unit.
    while (value >= 1023.95 && unit + 1 < kUnits.size()) {
        value /= 1024;
        ++unit;
    }
    char text[32];
    std::snprintf(text, sizeof text, "%.1f %s", value, kUnits[unit]);
    return text;
}

std::string human_duration(std::uint64_t milliseconds) {
    const std::uint64_t seconds = milliseconds / 1000;
    const auto two = [](std::uint64_t first, const char* first_unit, std::uint64_t second, const char* second_unit) {
        return std::to_string(first) + first_unit + std::to_string(second) + second_unit;
    };
    if (seconds < 60) {
        return std::to_string(seconds) + " s";
    }
    if (seconds < 3600) {
        return two(seconds / 60, " min ", seconds % 60, " s");
    }
    if (seconds < 86400) {
        return two(seconds / 3600, " h ", seconds / 60 % 60, " min");
    }
    return two(seconds / 86400, " d ", seconds / 3600 % 24, " h");
}

std::string user_text(std::uint32_t uid) {
    const passwd* const user = ::getpwuid(uid);
    return user != nullptr ? printable(user->pw_name) : std::to_string(uid);
}

std::string group_text(std::uint32_t gid) {
    const struct group* const known = ::getgrgid(gid);
    return known != nullptr ? printable(known->gr_name) : std::to_string(gid);
}

std::string hex(std::span<const std::uint8_t> bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const std::uint8_t byte : bytes) {
        text += kDigits[byte >> 4];
        text += kDigits[byte & 15];
    }
    return text;
}

std::string base64(std::span<const std::uint8_t> bytes) {
    constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
        std::uint32_t group = 0;
        for (std::size_t k = 0; k < 3; ++k) {
            group = group << 8 | (k < count ? bytes[i + k] : 0u);
        }
        for (std::size_t k = 0; k < 4; ++k) {
            text += k <= count ? kDigits[group >> (18 - 6 * k) & 63] : '=';
        }
    }
    return text;
}

std::string closest(std::string_view word, std::span<const std::string> choices) {
    constexpr std::size_t kFarthest = 2;
    std::string best;
    std::size_t best_distance = kFarthest + 1;
    for (const std::string& choice : choices) {
        if (!word.empty() && choice.starts_with(word)) {
            return choice;
        }
        // Levenshtein's distance, one row of the table at a time.
        std::vector<std::size_t> row(choice.size() + 1);
        std::iota(row.begin(), row.end(), std::size_t{0});
        for (std::size_t i = 0; i < word.size(); ++i) {
            std::size_t diagonal = std::exchange(row[0], i + 1);
            for (std::size_t k = 0; k < choice.size(); ++k) {
                const std::size_t replaced = diagonal + (word[i] == choice[k] ? 0 : 1);
                diagonal = row[k + 1];
                row[k + 1] = std::min({replaced, row[k] + 1, row[k + 1] + 1});
            }
        }
        if (row.back() < best_distance) {
            best = choice;
            best_distance = row.back();
        }
    }
    return best;
}

std::string printable(std::string_view text) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
        if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {  // U+0080 to U+009F
            result += '?';
            ++i;
        } else {
            result += byte < 0x20 || byte == 0x7f ? '?' : text[i];
        }
    }
    return result;
}

std::size_t display_width(std::string_view text) {
    std::size_t width = 0;
    for (std::size_t i = 0; i < text.size();) {
        const auto lead = static_cast<unsigned char>(text[i]);
        const std::size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
        auto point = static_cast<wchar_t>(length == 1 ? lead : lead & (0xff >> (length + 1)));
        for (std::size_t k = 1; k < length && i + k < text.size(); ++k) {
            point = static_cast<wchar_t>(point << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3f));
        }
        i += length;
        // -1 in a locale that doesn't know the character.
        const int columns = wcwidth(point);
        width += columns < 0 ? 1 : static_cast<std::size_t>(columns);
    }
    return width;
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

void Table::print(std::ostream& out) const {
    std::vector<std::size_t> widths;
    for (const Column& column : columns_) {
        widths.push_back(display_width(column.heading));
    }
    for (const auto& row : rows_) {
        for (std::size_t i = 0; i < row.size(); ++i) {
            widths[i] = std::max(widths[i], display_width(row[i]));
        }
    }
    const auto print_cell = [&](std::size_t column, const std::string& text) {
        const std::string padding(widths[column] - display_width(text), ' ');
        const bool last = column + 1 == columns_.size();
        if (columns_[column].align == Align::Right) {
            out << padding << text;
        } else {
            out << text << (last ? "" : padding);
        }
        out << (last ? "\n" : "  ");
    };
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        print_cell(i, columns_[i].heading);
    }
    for (const auto& row : rows_) {
        for (std::size_t i = 0; i < row.size(); ++i) {
            print_cell(i, row[i]);
        }
    }
}

}  // namespace hurrayctl
