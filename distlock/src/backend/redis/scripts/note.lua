-- Notes on a server.
--
-- KEYS   run  met  longest ttl  fence counter
-- ARGV   run id  count|keep|note  longest ttl ms  fencing tokens  met at (us by the clocks of a majority, or 0)  px
--        count: note that it counts in this run; keep: prolong that note if there is one; note: neither
-- Reply  1

local function text(number) return string.format('%.0f', number) end
local function raise(key, value)
  local before = tonumber(redis.call('GET', key) or 0) or 0
  redis.call('SET', key, text(math.max(before, tonumber(value))), 'PX', ARGV[6])
end
if ARGV[3] ~= '0' then raise(KEYS[3], ARGV[3]) end
if ARGV[4] ~= '0' then raise(KEYS[4], ARGV[4]) end
local met = redis.call('GET', KEYS[2]) or ''
if ARGV[5] ~= '0' and string.sub(met, 1, #ARGV[1] + 1) ~= ARGV[1] .. ' ' then
  redis.call('SET', KEYS[2], ARGV[1] .. ' ' .. ARGV[5], 'PX', ARGV[6])
end
if ARGV[2] == 'count' then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[6])
elseif ARGV[2] == 'keep' and redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[6])
end
return 1
