-- KEYS: the key of the token. ARGV: a token, then for each command the number of its words and the words.
-- Reply: the largest token, the replies, how many commands were called, and the error of the last one, or false.
local ours = ARGV[1]
local newest = redis.call('GET', KEYS[1]) or '0'
-- Lua's numbers are exact only up to 2^53, so the tokens are compared as text. They have no leading zeros.
if #newest > #ours or (#newest == #ours and newest > ours) then
    return {newest, {}, 0, false}
end
redis.call('SET', KEYS[1], ours)
local replies, at = {}, 2
while at <= #ARGV do
    local last = at + tonumber(ARGV[at])
    local done, reply = pcall(function() return redis.call(unpack(ARGV, at + 1, last)) end)
    if not done then
        return {ours, {}, #replies + 1, type(reply) == 'table' and reply.err or tostring(reply)}
    end
    replies[#replies + 1] = reply
    at = last + 1
end
return {ours, replies, #replies, false}
