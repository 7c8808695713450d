-- Makes a lease last at least ttl from now. Never creates, never shortens. (Behind clock.lua.)
--
-- KEYS   lock  entries
-- ARGV   token  ttl ms
-- Reply  {RENEWED, token, us}
--        {NOT_YOURS, token}

local lock, token, ttl = KEYS[1], ARGV[1], ARGV[2]
if redis.pcall('GET', lock) ~= token then
  -- A replica may answer from old data. It refuses to write, even where there is nothing to change.
  redis.call('HDEL', KEYS[2], '')
  return {'NOT_YOURS', token}
end
if redis.call('PTTL', lock) < tonumber(ttl) then
  redis.call('PEXPIRE', lock, ttl)
end
return {'RENEWED', token, text(now())}
