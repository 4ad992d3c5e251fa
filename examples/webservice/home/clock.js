const place = document.querySelector("#time");
async function tick() {
  place.textContent = (await (await fetch("/clock")).text()).trim();
}
tick();
setInterval(tick, 1000);
