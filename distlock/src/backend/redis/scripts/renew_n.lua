-- Makes a shared or limited lease last at least ttl from now. Never creates, never shortens. (Behind clock.lua
-- and members.lua.)
--
-- KEYS   lock  members
-- ARGV   token  ttl ms
-- Reply  {RENEWED, token, server_time}
--        {NOT_YOURS, token}

local lock, members = KEYS[1], KEYS[2]
local token, ttl = ARGV[1], tonumber(ARGV[2])
local now = server_time()

-- A lease needs both the marker and the member of the set.
local held = redis.pcall('GET', lock)
if type(held) == 'string' and is_marker(held) and is_paired(lock, members, now) then
  local mine = tonumber(redis.call('ZSCORE', members, token) or 0)
  if mine > now then
    if mine < now + ttl * 1000 then
      add_member(lock, members, token, now + ttl * 1000, now)
    end
    return {'RENEWED', token, text(now)}
  end
end

-- A replica may have old data. It refuses every write, even one that changes nothing, so there the script fails here.
redis.call('ZREM', members, '')
return {'NOT_YOURS', token}
