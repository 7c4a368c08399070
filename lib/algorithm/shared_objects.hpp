// Objects that the workers of one process have together, by name (Worker::share).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <typeindex>
#include <utility>

#include "core/error.hpp"

namespace hetsgd {

// One per run. An object lives as long as one of its callers keeps it; so that it is one object for
// all of them, they wait for each other before the first of them may let go of it (as
// SharedModel::join does). Thread-safe; what the objects hold they guard themselves.
class SharedObjects {
 public:
  // The object `name`, made by the first caller. `make` must not block. Checked: one type per name.
  template <class T>
  std::shared_ptr<T> get(const std::string& name, const std::function<std::shared_ptr<T>()>& make) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(name);
    if (found != objects_.end()) {
      HETSGD_CHECK(found->second.type == typeid(T));
      if (auto object = found->second.object.lock()) return std::static_pointer_cast<T>(object);
    }
    std::shared_ptr<T> made = make();
    objects_.insert_or_assign(name, Object{typeid(T), made});
    return made;
  }

 private:
  struct Object {
    std::type_index type;
    std::weak_ptr<void> object;
  };
  std::mutex mutex_;
  std::map<std::string, Object> objects_;
};

}  // namespace hetsgd
