-- Library: the server's time and fencing tokens.
-- Microseconds since 1970 fit a double exactly (< 2^53), but `tostring` would round them: use `text`.

local function server_time()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function text(number)
  return string.format('%.0f', number)
end

-- Reserves `count` consecutive fencing tokens and returns the first. The tokens follow the clock, so they still rise if
-- the counter is lost. If the clock stands still or is set back, they rise by at least one.
local function reserve_fences(counter, count, now)
  local last = tonumber(redis.call('GET', counter) or 0) or 0
  local first = math.max(last + 1, now)
  redis.call('SET', counter, text(first + count - 1), 'PX', 2592000000)
  return first
end

