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
$store = new RedisStore(new RedisManager(null, 'phpredis', ['default' => $server]));

$acquire = function (string $key, float $ttl) use ($store) {
    $lock = $store->lock($key, (int) ceil($ttl));

    return $lock->get() ? $lock : null;
};
serve('laravel-lock', 'php-illuminate-cache', 0.25, $acquire, fn ($lock) => $lock->release());
