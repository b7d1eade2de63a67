// Memory that is lent to a call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

// Working memory, kept from call to call: mapping its pages anew took a tenth of a training step.
// A block serves one call at a time and grows to what the largest call needed; so there are as many
// as there were calls at once, of which `most` are kept, none of them over `largest` bytes.
class Block {
 public:
  explicit Block(size_t bytes) {
    {
      const std::lock_guard<std::mutex> lock(mutex());
      if (!kept().empty()) {
        memory_ = std::move(kept().back());
        kept().pop_back();
      }
    }
    if (memory_.bytes < bytes) {
      memory_.start.reset();  // before the larger one is taken
      memory_.start.reset(static_cast<char*>(std::aligned_alloc(alignment, bytes)));
      memory_.bytes = memory_.start ? bytes : 0;
      if (!memory_.start) throw std::bad_alloc();
    }
  }
  Block(const Block&) = delete;
  ~Block() {
    if (memory_.bytes == 0 || memory_.bytes > largest) return;
    const std::lock_guard<std::mutex> lock(mutex());
    if (kept().size() < most) kept().push_back(std::move(memory_));
  }

  char* start() const { return memory_.start.get(); }

  static constexpr size_t alignment = 64;
  static size_t rounded(size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

 private:
  struct Memory {
    std::unique_ptr<char, void (*)(void*)> start{nullptr, std::free};
    size_t bytes = 0;
  };
  static constexpr size_t most = 4, largest = size_t{1} << 28;

  static std::mutex& mutex() {
    static std::mutex& made = *new std::mutex;
    return made;
  }
  static std::vector<Memory>& kept() {
    static std::vector<Memory>& made = *[] {
      auto* const blocks = new std::vector<Memory>;
      blocks->reserve(most);  // so that to keep one never fails
      return blocks;
    }();
    return made;
  }

  Memory memory_;
};

// The parts of a call's memory: each on a line of the cache of its own.
class Parts {
 public:
  explicit Parts(std::initializer_list<size_t> floats) : block_(bytes(floats)) {
    char* next = block_.start();
    for (const size_t count : floats) {
      starts_.push_back(reinterpret_cast<float*>(next));
      next += Block::rounded(count * sizeof(float));
    }
  }
  float* operator[](size_t part) const { return starts_[part]; }

 private:
  static size_t bytes(std::initializer_list<size_t> floats) {
    size_t sum = 0;
    for (const size_t count : floats) sum += Block::rounded(count * sizeof(float));
    return sum;
  }
  Block block_;
  std::vector<float*> starts_;
};
