-- Deletes a lock whoever holds it, and serves the queue. (In front of clock.lua and serve.lua.)
--
-- KEYS   lock  queue  entries  fence counter
-- ARGV   channel prefix  count  from (as for leave)
-- Reply  {FREE}, {RELEASED, holder, 0}, or a WRONGTYPE error for a key that is not a string

local lock, queue, entries, counter = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local token = redis.pcall('GET', lock)
if type(token) == 'table' then
  return token
end
if not token then
  return {'FREE'}
end

local waiter = redis.call('LPOP', queue)
local channels, count = ARGV[1], ARGV[2] == '1'
local from = ARGV[3]
local gap, every, since = 0, 0, 0

