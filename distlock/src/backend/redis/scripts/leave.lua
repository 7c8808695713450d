-- Releases a lock and hands it on; or leaves the queue; or undoes whatever an earlier command of the token may
-- have done. (In front of clock.lua and serve.lua, which goes on where this ends.)
--
-- KEYS   lock  queue  entries  fence counter
-- ARGV   token  hold ms (0: none)  channel prefix  count  gap ms (0: none)  every us  since us  from
--        count: 1 where PUBLISH counts every subscriber, so that 0 means nobody listens
--        since: when the current run of hand-offs began; 0: it begins now
--        from: what this server is called in the pushes it makes, or empty
-- Reply  {RELEASED, token, 1 if the lock was left free for plain pollers}
--        {CANCELLED, token}   the lock was not ours, the queue entry was
--        {NOT_YOURS, token}   neither was

local lock, queue, entries, counter = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token = ARGV[1]

-- A key of another type answers with an error, which is not our token either.
if redis.pcall('GET', lock) ~= token then
  if redis.call('HDEL', entries, token) == 1 then
    redis.call('LREM', queue, 1, token)
    return {'CANCELLED', token}
  end
  return {'NOT_YOURS', token}
end

local hold = tonumber(ARGV[2])
if hold > 0 then
  -- The value must change, or a late command of this token would move the key.
  redis.call('SET', lock, 'dl1:hold', 'PX', hold)
  return {'RELEASED', token, 0}
end

local waiter = redis.call('LPOP', queue)
if not waiter then
  redis.call('DEL', lock)
  return {'RELEASED', token, 0}
end

local channels, count = ARGV[3], ARGV[4] == '1'
local gap, every, since = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local from = ARGV[8]

