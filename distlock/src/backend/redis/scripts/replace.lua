-- Replaces the given holder of an exclusive lock. The key is never free in between, and the queue does not change.
-- Idempotent by token. (Behind clock.lua and replica.lua.)
--
-- KEYS   lock  fence counter
-- ARGV   token  ttl ms  fences (0: unfenced)  holder
-- Reply  {FRESH, token, server_time [, first fence]}   the lock was the holder's and is ours
--        {MINE, token, server_time [, first fence]}    the lock was ours; its lease is at least ttl now
--        {NOT_YOURS, token}                            the lock is free, or another token holds it; nothing was changed

local lock, counter = KEYS[1], KEYS[2]
local token, ttl, fences, replaced = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local holder = redis.pcall('GET', lock)
if holder ~= token and holder ~= replaced then
  return refused_by_replica(lock) or {'NOT_YOURS', token}
end

-- Before the lock gets a new holder, because the user may lack a permission: an error then shows that the ticket was
-- not used. A lock that is ours is extended first, which needs no memory.
local status, now, fence = 'MINE', server_time(), nil
if holder == token and redis.call('PTTL', lock) < tonumber(ttl) then
  redis.call('PEXPIRE', lock, ttl)
end
if fences ~= '0' then
  fence = text(reserve_fences(counter, tonumber(fences), now))
end
if holder ~= token then
  status = 'FRESH'
  redis.call('SET', lock, token, 'PX', ttl)
end
return {status, token, text(now), fence}
