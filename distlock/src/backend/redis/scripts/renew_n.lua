-- Second part of the script, behind renew_n_args.lua and members.lua.

-- A lease needs both, the marker and the place in the set.
local held = redis.pcall('GET', lock)
if type(held) == 'string' and is_marker(held) and is_paired() then
  local mine = tonumber(redis.call('ZSCORE', members, token) or 0)
  if mine > server_time then
    if mine < server_time + ttl * 1000 then
      admit(held, false, token, server_time + ttl * 1000)
    end
    return {'RENEWED', token, text(server_time)}
  end
end

-- A replica may answer from old data. It refuses to write, even where there is nothing to change.
redis.call('ZREM', members, '')
return {'NOT_YOURS', token}
