-- Library: decides when a released lock is left free for clients that only poll.

-- When the gap in an interval of the clock begins. It is pseudo-random, because a client whose polling interval is a
-- multiple of a fixed period could miss every gap. (Multiples of the golden ratio, with a growing step.)
local function gap_at(number, poll_gap_interval)
  local n = number % 65536
  return (number + n * 0.6180339887498949 * (1 + n / 1000) % 1) * poll_gap_interval
end

-- Returns whether a gap must interrupt the current run of hand-offs now. Interval 0: always (a member of a quorum, see
-- serve.lua).
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

