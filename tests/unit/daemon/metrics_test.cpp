#include "daemon/metrics.hpp"

#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/prometheus_text.hpp"

namespace hurrayd {
namespace {

using hurray::Errc;
using hurray::test::read_prometheus_text;

TEST(PrometheusText, CheckerRefusesWhatIsWrong) {
    const std::string good = "# HELP a_total A.\n# TYPE a_total counter\na_total{x=\"1\",y=\"\\\"\\\\\\n\"} 2\n";
    EXPECT_EQ(read_prometheus_text(good).at("a_total{x=\"1\",y=\"\\\"\\\\\\n\"}"), 2);
    for (const char* bad : {
             "a 1\n",                                                                          // no HELP, no TYPE
             "# HELP a A.\na 1\n",                                                             // no TYPE
             "# TYPE a gauge\na 1\n",                                                          // no HELP
             "# HELP a A.\n# TYPE a gauge\n",                                                  // no sample
             "# HELP a A.\n# TYPE a gauge\na 1",                                               // no end of the line
             "# HELP a A.\n# TYPE a gauge\na 1\n\n",                                           // an empty line
             "# HELP a A.\n# TYPE a counter\na 1\n",                                           // no _total
             "# HELP a_total A.\n# TYPE a_total gauge\na_total 1\n",                           // not a counter
             "# HELP a A.\n# TYPE a gauge\na one\n",                                           // no number
             "# HELP a A.\n# TYPE a gauge\na 1 2 3\n",                                         // more than one
             "# HELP a A.\n# TYPE a gauge\na{x=1} 1\n",                                        // no quotes
             "# HELP a A.\n# TYPE a gauge\na{x=\"\\t\"} 1\n",                                  // no such escape
             "# HELP a A.\n# TYPE a gauge\na{1x=\"\"} 1\n",                                    // no name
             "# HELP a A.\n# TYPE a gauge\na{x=\"1\",x=\"2\"} 1\n",                            // a label twice
             "# HELP a A.\n# TYPE a gauge\na 1\na 2\n",                                        // a sample twice
             "# HELP a A.\n# TYPE a gauge\nb 1\n",                                             // of another metric
             "# HELP a A\\t.\n# TYPE a gauge\na 1\n",                                          // no such escape
             "# HELP a A.\n# TYPE a gauge\na 1\n# HELP a A.\n# TYPE a gauge\na{x=\"1\"} 1\n",  // in two places
         }) {
        EXPECT_THROW((void)read_prometheus_text(bad), std::runtime_error) << bad;
    }
}

TEST(Exposition, EscapesWhatTheFormatWantsEscaped) {
    Exposition out;
    out.metric("a", Exposition::Type::Gauge, "Says \"a\\b\"\nand more.");
    out.sample(std::uint64_t{18446744073709551615U}, {{"x", "\"quoted\" \\ and\nbroken"}, {"y", ""}});
    out.sample(1.5);
    EXPECT_EQ(out.take(),
              "# HELP a Says \"a\\\\b\"\\nand more.\n"
              "# TYPE a gauge\n"
              "a{x=\"\\\"quoted\\\" \\\\ and\\nbroken\",y=\"\"} 18446744073709551615\n"
              "a 1.5\n");
}

TEST(Metrics, AreAllThereFromTheStart) {
    const Traffic traffic;
    const Dispatcher::Requests requests{};
    const auto samples = read_prometheus_text(expose({.totals = {},
                                                      .history = {},
                                                      .requests = requests,
                                                      .traffic = traffic,
                                                      .open_descriptors = {},
                                                      .max_descriptors = 64,
                                                      .start_time = 1.25,
                                                      .window_left = 0.5}));
    EXPECT_EQ(samples.at("hurray_build_info{version=\"" HURRAY_VERSION "\",protocol_version=\"1\"}"), 1);
    EXPECT_EQ(samples.at("hurray_start_time_seconds"), 1.25);
    EXPECT_EQ(samples.at("hurray_resume_window_seconds"), 0.5);
    EXPECT_EQ(samples.at("hurray_max_descriptors"), 64);
    EXPECT_EQ(samples.at("hurray_leases_ended_total{how=\"lost\"}"), 0);
    EXPECT_EQ(samples.at("hurray_errors_total{status=\"HURRAY_ERR_OVER_QUOTA\"}"), 0);
    for (const char* limit : {"limits.descriptors", "quota.user.clients", "quota.user.waiting",
                              "quota.user.reservations", "quota.user.bytes", "quota.bytes"}) {
        EXPECT_EQ(samples.at("hurray_limit_refusals_total{limit=\"" + std::string(limit) + "\"}"), 0);
    }
    EXPECT_FALSE(samples.contains("hurray_open_descriptors")) << "what the kernel does not tell is not made up";
}

TEST(Metrics, ErrorsCountByStatusAndByLimit) {
    Traffic traffic;
    traffic.count({Errc::NotFound, "nothing"});
    hurray::Error over{Errc::OverQuota, "too many"};
    over.limit_name = "quota.user.\"odd\"";
    traffic.count(over);
    traffic.count(over);
    const Dispatcher::Requests requests{};
    const auto samples = read_prometheus_text(
        expose({.totals = {}, .history = {}, .requests = requests, .traffic = traffic, .open_descriptors = 7}));
    EXPECT_EQ(samples.at("hurray_errors_total{status=\"HURRAY_ERR_NOT_FOUND\"}"), 1);
    EXPECT_EQ(samples.at("hurray_errors_total{status=\"HURRAY_ERR_OVER_QUOTA\"}"), 2);
    EXPECT_EQ(samples.at("hurray_limit_refusals_total{limit=\"quota.user.\\\"odd\\\"\"}"), 2);
    EXPECT_EQ(samples.at("hurray_open_descriptors"), 7);
}

}  // namespace
}  // namespace hurrayd
