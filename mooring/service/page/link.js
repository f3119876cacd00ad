// The one way to the service: documents, requests for changes, and the events that say that something is new.

const TOKEN = "mooring token";

// The token comes in the address, after the #, which browsers never send; it is taken out of sight at once.
export function keepToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(TOKEN, given);
    history.replaceState(null, "", location.pathname);
  }
}

export const hasToken = () => Boolean(sessionStorage.getItem(TOKEN));

function headers(more = {}) {
  const token = sessionStorage.getItem(TOKEN);
  return { "x-mooring-page": "1", ...(token ? { authorization: `Bearer ${token}` } : {}), ...more };
}

async function answered(response) {
  const content = await response.json();
  if (response.ok) return content;
  const { message, remedy } = content.error ?? { message: `answer ${response.status}` };
  throw new Error(remedy ? `${message} (${remedy})` : message);
}

export const read = async (path) => answered(await fetch(`/api/v1/${path}`, { headers: headers() }));

export const ask = async (path, body = {}) =>
  answered(await fetch(`/api/v1/${path}`, {
    method: "POST", headers: headers({ "content-type": "application/json" }), body: JSON.stringify(body),
  }));

// Calls `taken` with every picture, and `lost` when the service is away; goes on until the page is closed.
export async function follow(taken, lost) {
  for (let wait = 500; ; wait = Math.min(2 * wait, 5000)) {
    try {
      const response = await fetch("/api/v1/events", { headers: headers() });
      if (!response.ok) await answered(response);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        rest += value;
        const events = rest.split("\n\n");
        rest = events.pop();
        const newest = events.findLast((event) => event.startsWith("event: picture"));
        if (newest) {
          Promise.resolve(taken(JSON.parse(newest.slice(newest.indexOf("\ndata: ") + 7)))).catch((problem) => lost(problem.message));
          wait = 500;
        }
      }
      lost("the service has ended; looking for it again");
    } catch (problem) {
      lost(problem.message);
    }
    await new Promise((over) => setTimeout(over, wait));
  }
}
