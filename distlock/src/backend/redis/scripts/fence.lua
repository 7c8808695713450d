-- Raises the counter of fencing tokens to the value on which several servers agree. (Behind clock.lua.)
--
-- KEYS   lock  fence counter
-- ARGV   token  first  count
-- Reply  {FENCED, token, highest before}   the counter is at least first + count - 1 now
--        {NOT_YOURS, token}                the lock is not ours; nothing was changed

local lock, counter, token = KEYS[1], KEYS[2], ARGV[1]
if redis.pcall('GET', lock) ~= token then
  return {'NOT_YOURS', token}
end
local before = tonumber(redis.call('GET', counter) or 0) or 0
local last = tonumber(ARGV[2]) + tonumber(ARGV[3]) - 1
redis.call('SET', counter, text(math.max(before, last)), 'PX', 2592000000)
return {'FENCED', token, text(before)}
