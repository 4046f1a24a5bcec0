-- wrk's requests: the lines of a file in turn, each a body of JSON. Prints what happened as one line of JSON.

wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"

local bodies, sent = {}, 0

function init(arguments)
  for line in io.lines(arguments[1]) do
    bodies[#bodies + 1] = line
  end
end

function request()
  sent = sent % #bodies + 1
  return wrk.format(nil, nil, nil, bodies[sent])
end

function done(summary, latency)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  print(string.format(
    '{"requests": %d, "seconds": %f, "p50_ms": %f, "p95_ms": %f, "errors": %d}',
    summary.requests - errors.status, summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(95) / 1e3, failed
  ))
end
