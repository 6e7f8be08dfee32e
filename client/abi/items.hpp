#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "hurray_client.h"

#include "client/abi/guard.hpp"
#include "client/abi/options.hpp"
#include "libhurray/base/result.hpp"

namespace hurray::client::abi {

/// A caller's array of structs, each as long as the caller's header says: the first one's struct_size, which all have.
template <class Item>
class Items {
  public:
    /// Fails: NullPointer, InvalidArgument, Unsupported (what this library does not know of a longer one is set).
    [[nodiscard]] static Result<Items> of(Item* items, std::uint64_t count) {
        if (count == 0) {
            return Items(nullptr, 0, sizeof(Item));
        }
        if (items == nullptr) {
            return missing("items");
        }
        const Items given(items, static_cast<std::size_t>(count), items->struct_size);
        if (given.stride_ < offsetof(Item, status) + sizeof(HurrayStatus) || given.stride_ % alignof(Item) != 0) {
            return fail_field(Errc::InvalidArgument, "items[0].struct_size",
                              "is " + std::to_string(given.stride_) + "; set it to the size of the struct");
        }
        for (std::size_t i = 0; i < given.count_; ++i) {
            if (given.at(i).struct_size != given.stride_) {
                return fail_field(Errc::InvalidArgument, "items[" + std::to_string(i) + "].struct_size",
                                  "is " + std::to_string(given.at(i).struct_size) + ", that of the first " +
                                      std::to_string(given.stride_));
            }
        }
        return given;
    }

    [[nodiscard]] std::size_t size() const noexcept { return count_; }

    /// What the caller wrote, filled up with zeros. Fails: Unsupported.
    [[nodiscard]] Result<Item> read(std::size_t index) const { return read_options(&at(index)); }
    /// Writes a field if the caller's struct has it.
    template <class Field>
    void write(std::size_t index, Field Item::* field, Field value) const noexcept {
        Item& item = at(index);
        auto* place = reinterpret_cast<unsigned char*>(&(item.*field));
        if (place + sizeof value <= reinterpret_cast<unsigned char*>(&item) + stride_) {
            std::memcpy(place, &value, sizeof value);
        }
    }

  private:
    Items(Item* items, std::size_t count, std::size_t stride) : items_(items), count_(count), stride_(stride) {}

    [[nodiscard]] Item& at(std::size_t index) const noexcept {
        return *reinterpret_cast<Item*>(reinterpret_cast<unsigned char*>(items_) + index * stride_);
    }

    Item* items_;
    std::size_t count_;
    std::size_t stride_;
};

/// `error`, and which item it is about.
[[nodiscard]] inline Error of_item(std::size_t index, const char* name, Error error) {
    std::string which = "items[" + std::to_string(index) + "]";
    if (name != nullptr && *name != '\0') {
        which += std::string(" \"") + name + "\"";
    }
    error.message = which + ": " + sentence_of(error);
    error.field.clear();
    return error;
}

}  // namespace hurray::client::abi
