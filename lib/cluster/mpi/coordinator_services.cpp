// Services that one rank opens and another runs.
#include "cluster/mpi/coordinator_messages.hpp"

namespace hetsgd::mpi {

namespace {

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void Coordinator::install_service_handlers() {
  using Bytes = std::span<const std::byte>;
  channel_.on_message(kAskService, [this](int from, Bytes bytes) {
    const std::lock_guard guard(local_mutex_);
    if (local_) local_->opened(from, text_of(bytes));
  });
  channel_.on_message(kServiceWanted, [this](int, Bytes bytes) {
    const bool wanted = bytes.front() != std::byte{0};
    const std::lock_guard guard(mutex_);
    wanted_[text_of(bytes.subspan(1))].push_back(wanted);
  });
  // Name and maker with their lengths, then the arguments.
  channel_.on_message(kRecipe, [this](int, Bytes bytes) {
    const auto name = detail::Argument<std::string>::read(bytes);
    ServiceRecipe recipe;
    recipe.maker = detail::Argument<std::string>::read(bytes);
    recipe.arguments.assign(bytes.begin(), bytes.end());
    const std::lock_guard guard(local_mutex_);
    if (local_) local_->make(name, recipe);
  });
}

void Coordinator::ask_for_service(int host, const std::string& name) {
  channel_.send(host, kAskService, std::as_bytes(std::span(name)));
}

std::optional<bool> Coordinator::take_wanted(const std::string& name) {
  const std::lock_guard guard(mutex_);
  const auto found = wanted_.find(name);
  if (found == wanted_.end() || found->second.empty()) return std::nullopt;
  const bool wanted = found->second.front();
  found->second.pop_front();
  return wanted;
}

void Coordinator::say_wanted(int to, const std::string& name, bool wanted) {
  std::vector<std::byte> bytes{std::byte{wanted}};
  detail::put(bytes, name.data(), name.size());
  channel_.send(to, kServiceWanted, bytes);
}

void Coordinator::send_recipe(int host, const std::string& name, const ServiceRecipe& recipe) {
  std::vector<std::byte> bytes;
  detail::Argument<std::string>::write(bytes, name);
  detail::Argument<std::string>::write(bytes, recipe.maker);
  detail::put(bytes, recipe.arguments.data(), recipe.arguments.size());
  channel_.send(host, kRecipe, bytes);
}

}  // namespace hetsgd::mpi
