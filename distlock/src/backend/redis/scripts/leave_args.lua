-- Releases a lock and hands it on; or leaves the queue; or undoes whatever an earlier command of the token may
-- have done. (In front of clock.lua, members.lua, leave.lua and serve.lua.)
--
-- KEYS   lock  queue  entries  fence counter  members
-- ARGV   token  keep_taken_for ms (0: none)  handoffs_began us  settings  [from]
--        handoffs_began: when the current run of hand-offs began; 0: it begins now
--        settings: `<count> <poll_gap ms, 0: none> <poll_gap_interval us> <channel prefix>`, the same for every lock of a client
--        poll_gap_interval: the average distance of two gaps (see serve.lua)
--               0: none; one of several servers, which tells whoever releases that it has handed on
--        count: 1 where PUBLISH counts every subscriber, so that 0 means nobody listens
--        from: what this server is called in the pushes it makes
-- Reply  `RELEASED <token>`   the lock was ours and nobody waited for it
--        {RELEASED, token, 1 if the lock was left free for plain pollers, or every is 0 and it was handed on}
--        {CANCELLED, token}   the lock was not ours, the queue entry was
--        {NOT_YOURS, token}   neither was

local lock, queue = KEYS[1], KEYS[2]
local token = ARGV[1]

-- A key of another type answers with an error, which is not our token either.
local held = redis.pcall('GET', lock)
local waiter
if held == token and ARGV[2] == '0' then
  -- The first write of the script, and one that needs no memory: it tells whether the server writes at all,
  -- before anybody is told anything (see serve.lua).
  waiter = redis.pcall('LPOP', queue)
  if type(waiter) == 'table' then
    if not string.find(waiter.err, 'WRONGTYPE', 1, true) then
      return waiter
    end
    -- Somebody else's value stands where the queue would be: nobody is queued.
    waiter = false
  end
  if not waiter then
    -- Nearly always: everything below would only cost time. One string is answered faster than a list.
    redis.call('DEL', lock)
    return 'RELEASED ' .. token
  end
end

local entries, counter, members = KEYS[3], KEYS[4], KEYS[5]
local keep_taken_for, handoffs_began = tonumber(ARGV[2]), tonumber(ARGV[3])
local count, poll_gap, poll_gap_interval, channels = string.match(ARGV[4], '^(%d) (%d+) (%d+) (.*)$')
count, poll_gap, poll_gap_interval = count == '1', tonumber(poll_gap), tonumber(poll_gap_interval)
local from = ARGV[5] or ''
local reply = {'RELEASED', token, 0}
-- What is in the lock's key while the queue is served; empty: nothing.
local there = ''
-- Declared in front of members.lua, which uses it; set once it is known that the time is needed.
local server_time

