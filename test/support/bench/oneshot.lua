-- SPDX-License-Identifier: Apache-2.0
--
-- Script for wrk: one request a connection, as Let's Encrypt's validators send it,
-- each with a new token. It prints one figure a line, for the benchmark.

local head, tail, seed
local count = 0

-- args: a number that differs for each run of wrk.
function init(args)
  seed = args[1] or "0"
  head = "GET /.well-known/acme-challenge/LoqXcYV8q5ONbJQxbmR7SC" .. string.format("%08d", seed)
  tail = " HTTP/1.1\r\nHost: api.lab.test\r\n" ..
    "User-Agent: Mozilla/5.0 (compatible; Let's Encrypt validation server; +https://www.letsencrypt.org)\r\n" ..
    "Accept: */*\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
end

function request()
  count = count + 1
  return head .. string.format("%013d", count) .. tail
end

function done(summary, latency)
  local errors = summary.errors
  local out = {
    requests = summary.requests,
    microseconds = summary.duration,
    p50 = latency:percentile(50),
    p99 = latency:percentile(99),
    p999 = latency:percentile(99.9),
    connect = errors.connect,
    read = errors.read,
    write = errors.write,
    status = errors.status,
    timeout = errors.timeout,
  }
  for name, value in pairs(out) do
    io.write(string.format("bench %s %.0f\n", name, value))
  end
end
