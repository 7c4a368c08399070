// A traced service notes when it handles each request and when it answers, for a record that
// `hetsgd replay` times again (TraceDetail::causes).
//
// The handler is wrapped where it is made. A service that is made from serialised arguments, in
// another process (mpi), is not traced: its calls then keep their recorded time.
#pragma once

#include <string>

#include "cluster/serialised_factory.hpp"
#include "cluster/trace/trace.hpp"

namespace hetsgd {

// The factory of the same service, whose handler fills the line of the service in `trace`. The line
// has a range per request, of category "served": `begin` is when the service turned to it, `end`
// when it had handled it. Its place has the rank that asked as `peer`, and the request's number
// among those of that rank. Its cause: see TraceRange.
ServiceFactory traced_factory(const ServiceFactory& factory, const std::string& service,
                              Trace& trace);

}  // namespace hetsgd
