<?php

// The atomic lock of Laravel's cache on Redis: asks again every 250 ms when it waits, and does not renew. Its ttl is a
// whole number of seconds.

require '/usr/share/php/Illuminate/Redis/autoload.php';
require '/usr/share/php/Illuminate/Cache/autoload.php';
require __DIR__.'/adapter.php';

use Illuminate\Cache\RedisStore;
use Illuminate\Redis\RedisManager;

['host' => $host, 'port' => $port] = parse_url($argv[1]);
$server = ['host' => $host, 'port' => $port, 'timeout' => 1, 'read_timeout' => 1];
$servers = new RedisManager(null, 'phpredis', ['default' => $server]);
$store = new RedisStore($servers);

$acquire = function (string $key, float $ttl) use ($store) {
    $lock = $store->lock($key, (int) ceil($ttl));

    return $lock->get() ? $lock : null;
};
$close = function () use ($servers) {
    foreach ($servers->connections() ?? [] as $connection) {
        $connection->client()->close();
    }
    $servers->purge();
};
serve('laravel-lock', 'php-illuminate-cache', 0.25, $acquire, fn ($lock) => $lock->release(), $close);
