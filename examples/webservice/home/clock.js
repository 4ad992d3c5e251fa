const place = document.querySelector("#time");
async function tick() {
  try {
    const response = await fetch("/clock");
    if (!response.ok) throw new Error(response.statusText);
    place.textContent = `It is ${(await response.text()).trim()}.`;
  } catch {
    place.textContent = "The time is not available.";
  }
}
tick();
setInterval(tick, 1000);
