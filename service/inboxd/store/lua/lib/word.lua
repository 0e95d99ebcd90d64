-- word: a message of a thread as `admit` and `enqueue` take it, from what the script was given; `to` is whose mail it is, '' nobody's.
-- Needs    message_id thread_id sender sender_task priority kind tail hash chars awaiting hops
local function word(to, reply_to)
  local function quoted(text)
    return text == '' and 'null' or '"' .. text .. '"'
  end
  return {
    task_id = to, message_id = message_id, sender = sender, sender_task = sender_task, priority = priority, kind = kind, hash = hash,
    chars = chars, topic = '', ttl_ms = '', supersedes = '', reply_to = reply_to, awaiting = awaiting, thread_id = thread_id, hops = hops,
    create = '', doc = '{"message_id":"' .. message_id .. '","task":' .. quoted(to) .. ',"reply_to":' .. quoted(reply_to) .. ',' .. tail,
  }
end
