// Our threads. OpenMP can't be used: MindSpore's Python thread spins while it waits for results and
// takes a core from OpenMP's team, which then waits for its slowest member. Here whoever is free takes
// the next piece of work, the caller included, so a late or sleeping thread holds up nobody.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

class Pool {
 public:
  using Work = std::function<void(size_t)>;

  explicit Pool(size_t threads) : threads_(threads) {}

  size_t threads() const { return threads_; }

  // work(0) ... work(count - 1), by all threads; throws what one of them threw. One caller has the
  // threads at a time; another one, and a process forked from this one (it has no threads), does its
  // work alone. The pieces are the same either way, and so are the results.
  void run(size_t count, const Work& work) {
    std::unique_lock<std::mutex> turn(turn_, std::defer_lock);
    if (count == 1 || threads_ == 1 || getpid() != owner_ || !turn.try_lock()) {
      for (size_t i = 0; i < count; i++) work(i);
      return;
    }
    std::unique_lock<std::mutex> lock(state_);
    start(lock);
    work_ = &work;
    count_ = left_ = count;
    next_ = 0;
    jobs_.fetch_add(1, std::memory_order_release);
    called_.notify_all();
    take_pieces(lock);
    lock.unlock();
    spin([&] { return left_.load(std::memory_order_acquire) == 0; });
    lock.lock();
    done_.wait(lock, [&] { return left_ == 0; });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  // Between the steps of an operator a few microseconds pass: for those a thread looks out for work
  // before it sleeps. Not for longer: between operators MindSpore's own threads need the core (with
  // 300 microseconds a training step took 6 % longer on two cores).
  template <class Condition>
  static void spin(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(30);
    while (!condition() && std::chrono::steady_clock::now() < end) {
      for (int i = 0; i < 16; i++) __builtin_ia32_pause();
    }
  }

  // Threads start with the first work; where the system refuses some, the others do it all. They are
  // never joined: they hold nothing, and the pool lives as long as the process, so there is nothing
  // to go wrong at its end.
  void start(const std::unique_lock<std::mutex>&) {
    try {
      for (; started_ + 1 < threads_; started_++) std::thread([this] { serve(); }).detach();
    } catch (const std::system_error&) {
      started_ = threads_ - 1;
    }
  }

  void serve() {
    pthread_setname_np(pthread_self(), "sr_kernels");
    // MindSpore may have pinned the thread that started this one: take the process's cores instead.
    cpu_set_t cores;
    if (sched_getaffinity(owner_, sizeof cores, &cores) == 0) sched_setaffinity(0, sizeof cores, &cores);
    for (uint64_t seen = 0;;) {
      spin([&] { return jobs_.load(std::memory_order_acquire) != seen; });
      std::unique_lock<std::mutex> lock(state_);
      called_.wait(lock, [&] { return jobs_ != seen; });
      seen = jobs_;
      take_pieces(lock);
    }
  }

  void take_pieces(std::unique_lock<std::mutex>& lock) {
    while (next_ < count_) {
      const Work& work = *work_;
      const size_t piece = next_++;
      lock.unlock();
      std::exception_ptr error;
      try {
        work(piece);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      if (error) error_ = error;
      if (--left_ == 0) done_.notify_one();
    }
  }

  const size_t threads_;
  const pid_t owner_ = getpid();
  std::mutex turn_;   // held by the caller that has the threads
  std::mutex state_;  // guards what follows
  std::condition_variable called_, done_;
  const Work* work_ = nullptr;
  std::exception_ptr error_;
  size_t count_ = 0, next_ = 0, started_ = 0;
  std::atomic<size_t> left_{0};    // pieces not yet done; written under state_,
  std::atomic<uint64_t> jobs_{0};  // as is the number of jobs so far; spin looks without
};
