-- The timer service: timers are delivered by the scheduler itself, so there is nothing to do. It exists so
-- that a configuration which names it finds it.

return {}
