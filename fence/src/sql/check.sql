INSERT INTO distlock_fence (key, token) VALUES ($1, $2)
ON CONFLICT (key) DO UPDATE SET token = excluded.token WHERE distlock_fence.token <= excluded.token
RETURNING token
