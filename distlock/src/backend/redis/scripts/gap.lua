-- Library: when a lock that is handed on is left free for clients that only poll.

-- Where the gap of one interval of the clock lies. It is pseudo-random, because periodic gaps would always
-- miss a client that polls at a related interval. (The multiples of the golden ratio, with a growing step.)
local function gap_at(number, poll_gap_interval)
  local n = number % 65536
  return (number + n * 0.6180339887498949 * (1 + n / 1000) % 1) * poll_gap_interval
end

-- Whether a run of hand-offs that began then has to be interrupted by a gap now. Interval 0: always (a member
-- of a quorum, see below).
local function gap_is_due(poll_gap, poll_gap_interval, handoffs_began, now)
  if poll_gap == 0 or poll_gap_interval == 0 then
    return poll_gap > 0
  end
  local number = math.floor(now / poll_gap_interval)
  local latest = gap_at(number, poll_gap_interval)
  if latest > now then
    latest = gap_at(number - 1, poll_gap_interval)
  end
  return handoffs_began < latest
end

