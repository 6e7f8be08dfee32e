// Publishes a matrix in two halves, as a composite: a head that describes the whole, and the halves as its members. Nobody
// ever sees some of them and not the others, nor parts of different ages: each Enter publishes new ones, end of input ends.
#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <hurray/client.hpp>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr std::array<std::uint64_t, 2> kShape = {8, 8};

void publish_weights(hurray::Client& client, float value) {
    HurrayCompositeHead halves{};
    halves.member_count = 2;
    halves.composition_rule = HURRAY_COMPOSITION_PARTITION;
    const hurray::Descriptor head =
        hurray::DescriptorBuilder(hurray::ElementType::Float32, kShape).composite_head(halves).build();
    hurray::CompositeSet set(head);  // checks that head and members make a whole

    auto group = client.begin_group();
    // A head has no buffers, so there is nothing to be copied.
    client.publish_copy("weights", head.encode(), hurray::BufferList(), {.group = group.number()});
    for (std::uint64_t half = 0; half < 2; ++half) {
        constexpr std::array<std::uint64_t, 2> kHalf = {8, 4};
        const std::array<std::uint64_t, 2> offset = {0, 4 * half};
        const std::array<std::uint64_t, 1> size = {kHalf[0] * kHalf[1] * sizeof(float)};
        const hurray::Descriptor member =
            hurray::DescriptorBuilder(hurray::ElementType::Float32, kHalf)
                .buffer(size[0])
                .shard(hurray::ShardBox{{kShape.begin(), kShape.end()}, {offset.begin(), offset.end()}})
                .build();
        set.add(member);

        auto memory = client.allocate_buffers(size);
        auto* const elements = reinterpret_cast<float*>(memory.buffer().data());
        std::fill_n(elements, kHalf[0] * kHalf[1], value + static_cast<float>(half));
        client.publish("weights/" + std::to_string(half), member.encode(), std::move(memory),
                       {.group = group.number()});
    }
    set.finish();
    group.commit();  // from here on all three can be attached; without it, none ever
}

}  // namespace

int main() try {
    auto client = hurray::Client::connect();
    std::string line;
    float value = 1;
    do {
        publish_weights(client, value);
        std::cout << "weights of " << value << " are there" << std::endl;
        value += 2;
    } while (std::getline(std::cin, line));
} catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
}
