// A scripted web server on loopback for tests. Each connection gets the next scripted answer, piece
// by piece.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "llm/spec.h"
#include "os/fd.h"

namespace cupel::llm {

struct Piece {
  std::string bytes;
  int pause_ms = 0;  // before it
};

struct Scripted {
  std::vector<Piece> pieces;
  bool reset = false;  // end with a reset instead of a proper close
};

/// A complete answer with a Content-Length.
inline Scripted Whole(int status, const std::string& type, const std::string& body,
                      const std::string& headers = "") {
  return {{{fmt::format("HTTP/1.1 {} X\r\nContent-Type: {}\r\n{}Content-Length: {}\r\n\r\n{}",
                        status, type, headers, body.size(), body),
            0}},
          false};
}

/// An answer in chunks. If `cut`, the final empty chunk is missing.
inline Scripted Stream(const std::vector<Piece>& pieces, bool cut = false) {
  Scripted answer;
  answer.pieces.push_back(
      {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
       "Transfer-Encoding: chunked\r\n\r\n",
       0});
  for (const Piece& piece : pieces) {
    answer.pieces.push_back(
        {fmt::format("{:x}\r\n{}\r\n", piece.bytes.size(), piece.bytes), piece.pause_ms});
  }
  if (!cut) answer.pieces.push_back({"0\r\n\r\n", 0});
  return answer;
}

inline Scripted Stream(const std::string& body, bool cut = false) {
  return Stream(std::vector<Piece>{{body, 0}}, cut);
}

class TestServer {
 public:
  explicit TestServer(std::vector<Scripted> script) : script_(std::move(script)) {
    listener_ = os::Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    CHECK(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    CHECK(listen(listener_.get(), 16) == 0);
    CHECK(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~TestServer() {
    stop_ = true;
    thread_.join();
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  int port() const { return port_; }
  std::string base() const { return fmt::format("http://127.0.0.1:{}/v1", port_); }
  /// A spec of a service whose base URL is this server.
  ModelSpec Spec(const std::string& provider, const std::string& options = "") const {
    const std::string text = fmt::format("{}+{}:m1{}", provider, base(), options);
    return ParseModelSpec(text).value();
  }
  /// All requests so far, with headers and bodies.
  std::vector<std::string> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void Serve() {
    for (size_t next = 0; !stop_;) {
      pollfd waiting{listener_.get(), POLLIN, 0};
      if (poll(&waiting, 1, 20) <= 0) continue;
      const os::Fd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      ReadRequest(client.get());
      if (next < script_.size()) Play(client.get(), script_[next++]);
    }
  }

  void ReadRequest(int fd) {
    std::string text;
    char buffer[65536];
    size_t wanted = std::string::npos;
    while (!stop_ && text.size() < wanted) {
      pollfd waiting{fd, POLLIN, 0};
      if (poll(&waiting, 1, 20) <= 0) continue;
      const ssize_t n = read(fd, buffer, sizeof buffer);
      if (n <= 0) break;
      text.append(buffer, static_cast<size_t>(n));
      const size_t head = text.find("\r\n\r\n");
      const size_t length = text.find("Content-Length: ");
      if (head != std::string::npos && length != std::string::npos) {
        wanted = head + 4 + std::stoul(text.substr(length + 16));
      }
    }
    const std::lock_guard lock(mutex_);
    requests_.push_back(text);
  }

  void Play(int fd, const Scripted& answer) {
    for (const Piece& piece : answer.pieces) {
      for (int slept = 0; slept < piece.pause_ms && !stop_; slept += 10) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      size_t sent = 0;
      while (sent < piece.bytes.size() && !stop_) {
        const ssize_t n =
            send(fd, piece.bytes.data() + sent, piece.bytes.size() - sent, MSG_NOSIGNAL);
        if (n <= 0) return;
        sent += static_cast<size_t>(n);
      }
    }
    if (answer.reset) {
      const linger now{1, 0};
      setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
  }

  const std::vector<Scripted> script_;
  os::Fd listener_;
  int port_ = 0;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

}  // namespace cupel::llm
