// What has been found out about a driver by trying it, kept in the cache folder (answers/KEY) for the processes to
// come. Keys are those of program_cache::key, so that another version of the driver is asked again.
#pragma once

#include <optional>
#include <string>

namespace ocl::kept_answers {

// Nothing: it was not asked yet, or the disk cache is off.
std::optional<std::string> get(const std::string& key);
// Does nothing where the disk cache is off or cannot be written.
void keep(const std::string& key, const std::string& answer) noexcept;

}  // namespace ocl::kept_answers
