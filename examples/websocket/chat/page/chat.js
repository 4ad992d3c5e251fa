// The page of a chat. It connects again after a lost connection: at first soon, then with growing pauses of random
// length, so that the clients of a restarted server do not all come at once.

"use strict"

const SHORTEST = 500, LONGEST = 15000 // milliseconds between attempts
const at = id => document.getElementById(id)
const enter = at("enter"), say = at("say"), text = at("text"), log = at("log"), list = at("messages")
const send = say.querySelector("button")

let socket, name, room, timer
let lastId = 0, failures = 0

function show(state, live) {
  at("state").textContent = state
  at("state").className = live ? "live" : ""
  send.disabled = !live
}

function add(message) {
  lastId = Math.max(lastId, message.id)
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40
  const [item, from, line] = ["li", "b", "span"].map(name => document.createElement(name))
  from.textContent = message.from
  line.textContent = message.text // `textContent`, so that no message becomes markup
  item.append(from, " ", line)
  if (message.from === name) item.className = "mine"
  list.append(item)
  if (atEnd) log.scrollTop = log.scrollHeight
}

function connect() {
  clearTimeout(timer)
  show("connecting")
  const scheme = location.protocol === "https:" ? "wss:" : "ws:"
  const query = new URLSearchParams({ name, after: lastId })
  socket = new WebSocket(`${scheme}//${location.host}/rooms/${encodeURIComponent(room)}?${query}`)
  socket.onmessage = event => {
    const data = JSON.parse(event.data)
    if (data.messages) data.messages.forEach(add)
    if (data.members) at("members").textContent = `Here: ${data.members.join(", ")}`
  }
  socket.onopen = () => {
    failures = 0
    show("connected", true)
  }
  socket.onclose = event => {
    // The server has refused what the user did; the same would be refused again.
    if (event.code === 1008) return show(`disconnected: ${event.reason}`)
    const pause = Math.min(LONGEST, SHORTEST * 2 ** failures++) * (0.5 + Math.random() / 2)
    show("connection lost, trying again")
    timer = setTimeout(connect, pause)
  }
}

// The computer has a network again: no need to wait for the pause.
addEventListener("online", () => {
  if (room && socket.readyState === WebSocket.CLOSED) connect()
})

enter.onsubmit = event => {
  event.preventDefault()
  name = enter.elements.name.value.trim()
  room = enter.elements.room.value
  if (!name) return
  enter.hidden = true
  at("room").hidden = false
  at("title").textContent = `Room ${room}`
  document.title = `${room} – Chat`
  connect()
  text.focus()
}

say.onsubmit = event => {
  event.preventDefault()
  // While there is no connection, the text stays in the field.
  if (socket.readyState !== WebSocket.OPEN || !text.value.trim()) return
  socket.send(text.value)
  text.value = ""
}

enter.hidden = false
