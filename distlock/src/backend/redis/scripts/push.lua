-- Library: a push to one client.
--
-- channels: prefix of the clients' channels. If it ends with the hash tag of the lock's slot, the nodes of the cluster
-- know SPUBLISH: the push stays at this node. A client listens to the channel with the tag at the node that serves the
-- slot, if it has waited there before and is not of an earlier version. It listens to the channel without the tag in any
-- case. PUBLISH sends a push on that channel to every node.

-- Returns how many subscribers of this node were told, or an error (no permission).
local function push(channels, client, message)
  if string.sub(channels, -1) == '}' then
    local told = redis.pcall('SPUBLISH', channels .. client, message)
    if type(told) == 'number' and told > 0 then
      return told
    end
    channels = string.gsub(channels, '{%d+}$', '')
  end
  return redis.pcall('PUBLISH', channels .. client, message)
end

