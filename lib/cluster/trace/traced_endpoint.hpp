// A TracedEndpoint stands between an algorithm and the endpoint of its cluster. It notes each
// blocking call: computations, messages, collectives, calls of services, evaluations (which take
// none of the clock). Without --trace nothing stands there.
//
//  Worker -- TracedEndpoint -- the cluster's Endpoint
//                 +- range [begin, end] --> TraceLine of this process --> Trace --> file (result/)
#pragma once

#include <cstdint>
#include <functional>

#include "cluster/endpoint.hpp"
#include "cluster/trace/trace.hpp"

namespace hetsgd {

// Calls fn with an endpoint that notes what it is asked for in a line of `trace`, and passes it on.
// Background tasks that fn starts get a line of their own. The clock and the results are those of a
// run without trace.
void with_traced_endpoint(Endpoint& endpoint, Trace& trace,
                          const std::function<void(Endpoint&)>& fn);
// Notes that the last step of this process had `samples` samples. `endpoint` is one of
// with_traced_endpoint or of a background task of it.
void note_batch(Endpoint& endpoint, std::uint64_t samples);

}  // namespace hetsgd
