#include "file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <hurray/hurray.hpp>
#include <iostream>
#include <optional>
#include <type_traits>
#include <variant>

#include "exit_codes.hpp"
#include "tensor_text.hpp"
#include "text.hpp"

namespace hurrayctl {
namespace {

constexpr std::string_view kExtension = ".hrry";

/// A file that is open for reading.
class OpenFile {
  public:
    // Not blocking, so that a pipe of that name, which is no file, does not keep us waiting for its writer.
    explicit OpenFile(const std::string& path)
        : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)) {}
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;
    ~OpenFile() {
        if (fd_ >= 0) {
            close(fd_);
        }
    }
    int fd() const { return fd_; }

  private:
    int fd_;
};

// ---- Values --------------------------------------------------------------------------------------------------------

constexpr const char* kKinds[] = {"string", "int64", "uint64", "float64", "bool", "bytes", "array"};

template <class Plain>
Json plain_json(const Plain& value) {
    if constexpr (std::is_same_v<Plain, std::vector<std::uint8_t>>) {
        return base64(value);
    } else if constexpr (std::is_same_v<Plain, double>) {
        // JSON has no number for these.
        return std::isnan(value) ? Json("nan") : std::isinf(value) ? Json(value > 0 ? "inf" : "-inf") : Json(value);
    } else {
        return value;
    }
}

Json value_json(const hurray::FileValue& value) {
    return std::visit(
        [](const auto& held) -> Json {
            if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::vector<hurray::PlainValue>>) {
                Json array = Json::array();
                for (const hurray::PlainValue& element : held) {
                    array.push_back(std::visit([](const auto& plain) { return plain_json(plain); }, element));
                }
                return array;
            } else {
                return plain_json(held);
            }
        },
        value);
}

/// On one line, for people; long ones are cut.
std::string value_text(const hurray::FileValue& value) {
    constexpr std::size_t kMostElements = 8;
    constexpr std::size_t kMostBytes = 16;
    return std::visit(
        [](const auto& held) -> std::string {
            using Held = std::decay_t<decltype(held)>;
            if constexpr (std::is_same_v<Held, std::vector<std::uint8_t>>) {
                const bool cut = held.size() > kMostBytes;
                return std::to_string(held.size()) +
                       " bytes: " + hex(std::span(held).first(cut ? kMostBytes : held.size())) + (cut ? "..." : "");
            } else if constexpr (std::is_same_v<Held, std::vector<hurray::PlainValue>>) {
                std::string text;
                for (std::size_t i = 0; i < held.size() && i < kMostElements; ++i) {
                    text += text.empty() ? "" : ", ";
                    text += std::visit([](const auto& plain) { return plain_json(plain).dump(); }, held[i]);
                }
                return "[" + text + (held.size() > kMostElements ? ", ... (" + std::to_string(held.size()) + ")" : "") +
                       "]";
            } else {
                return plain_json(held).dump();
            }
        },
        value);
}

// ---- Tensors -------------------------------------------------------------------------------------------------------

std::string name_of(const HurrayFileEntry& entry) { return {entry.name, static_cast<std::size_t>(entry.name_len)}; }

/// Its descriptor; what is wrong with it is told on stderr too.
struct FileTensor {
    HurrayFileEntry entry{};
    Tensor tensor;
    std::vector<std::uint8_t> encoded;
};

FileTensor read_tensor_of(hurray::Reader& reader, std::uint64_t index) {
    FileTensor result;
    result.entry = reader.entry(index);
    try {
        result.encoded = reader.go_to(index).encode();
        result.tensor = read_tensor(result.encoded);
    } catch (const hurray::StatusError&) {
        result.tensor.problem = hurray_last_error_message();
    }
    if (!result.tensor.problem.empty()) {
        complain(printable(result.tensor.problem));
    }
    return result;
}

Json tensor_json(const FileTensor& found) {
    return {{"name", name_of(found.entry)},
            {"descriptor_offset", found.entry.descriptor_offset},
            {"descriptor_length", found.entry.descriptor_length},
            {"data_offset", found.entry.data_offset},
            {"data_length", found.entry.data_length},
            {"descriptor", to_json(found.tensor, found.encoded)}};
}

void print_line(const std::string& key, const std::string& value) {
    std::cout << key << std::string(12 - std::min<std::size_t>(key.size(), 11), ' ') << value << '\n';
}

int print_tensor(const FileLook& look, hurray::Reader& reader) {
    const auto index = reader.find(look.tensor);
    if (!index) {
        complain(look.path + " has no tensor " + printable(look.tensor) + "; `hurrayctl inspect " + look.path +
                 "` shows which there are");
        return kRefused;
    }
    const FileTensor found = read_tensor_of(reader, *index);
    if (look.json) {
        print(tensor_json(found));
    } else {
        print_line("name", printable(name_of(found.entry)));
        print_line("data",
                   human_bytes(found.entry.data_length) + " at byte " + std::to_string(found.entry.data_offset));
        for (const auto& [key, text] : lines(found.tensor)) {
            print_line(key, printable(text));
        }
    }
    return found.tensor.problem.empty() ? kDone : kRefused;
}

void print_heading(const FileLook& look, const HurrayFileInfo& info) {
    print_line("file", printable(look.path));
    print_line("version", std::to_string(info.version_major) + "." + std::to_string(info.version_minor));
    print_line("bytes", human_bytes(info.byte_size) + " (" + std::to_string(info.byte_size) + ")");
    print_line("tensors",
               std::to_string(info.tensor_count) + ", data aligned to " + std::to_string(info.data_buffer_alignment));
}

int print_file(const FileLook& look, hurray::Reader& reader) {
    const HurrayFileInfo info = reader.file_info();
    Json json{{"file", look.path},
              {"version", std::to_string(info.version_major) + "." + std::to_string(info.version_minor)},
              {"bytes", info.byte_size},
              {"flags", info.flags},
              {"data_buffer_alignment", info.data_buffer_alignment},
              {"tensors", Json::array()},
              {"values", Json::array()}};
    using enum Table::Align;
    Table tensors({{"NAME", Left}, {"TYPE", Left}, {"SHAPE", Left}, {"LAYOUT", Left}, {"BYTES", Right}, {"AT", Right}});
    bool whole = true;
    for (std::uint64_t i = 0; i < info.tensor_count; ++i) {
        const FileTensor found = read_tensor_of(reader, i);
        whole = whole && found.tensor.problem.empty();
        if (look.json) {
            json["tensors"].push_back(tensor_json(found));
        } else {
            tensors.add({printable(name_of(found.entry)), type_text(found.tensor), shape_text(found.tensor),
                         layout_text(found.tensor), human_bytes(found.entry.data_length),
                         std::to_string(found.entry.data_offset)});
        }
    }
    Table values({{"KEY", Left}, {"KIND", Left}, {"VALUE", Left}});
    for (std::uint64_t i = 0; i < info.value_count; ++i) {
        const auto [key, value] = reader.value(i);
        if (look.json) {
            json["values"].push_back({{"key", key}, {"kind", kKinds[value.index()]}, {"value", value_json(value)}});
        } else {
            values.add({printable(key), kKinds[value.index()], printable(value_text(value))});
        }
    }
    if (look.json) {
        print(json);
        return whole ? kDone : kRefused;
    }
    print_heading(look, info);
    if (info.tensor_count > 0) {
        std::cout << '\n';
        tensors.print(std::cout);
    }
    if (info.value_count > 0) {
        std::cout << '\n';
        values.print(std::cout);
    }
    return whole ? kDone : kRefused;
}

}  // namespace

bool is_file_argument(const std::string& argument) { return argument.ends_with(kExtension); }

int inspect_file(const FileLook& look) {
    const OpenFile file(look.path);
    if (file.fd() < 0) {
        complain("can't open " + printable(look.path) + ": " + std::strerror(errno) +
                 "; a capsule whose name ends in .hrry is named with --capsule");
        return kRefused;
    }
    try {
        hurray::Reader reader = hurray::Reader::file(file.fd());
        const int code = look.tensor.empty() ? print_file(look, reader) : print_tensor(look, reader);
        if (!std::cout.flush()) {
            complain("can't write to stdout");
            return kRefused;
        }
        return code;
    } catch (const hurray::StatusError&) {
        complain(printable(look.path) + ": " + printable(hurray_last_error_message()));
        return kRefused;
    }
}

}  // namespace hurrayctl
