// Browsers start no worker from a file. If the site is opened from disk, its search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.body.appendChild(document.createElement("iframe"));
      this.frame.hidden = true;
      this.inner = this.frame.contentWindow;
      this.inner.document.open();
      this.inner.document.write("<body></body>");
      this.inner.document.close();
      const load = (src) =>
        new Promise((loaded, failed) => {
          const script = this.inner.document.createElement("script");
          Object.assign(script, { src, onload: loaded, onerror: failed });
          this.inner.document.body.append(script);
        });
      this.inner.importScripts = (...urls) => urls.reduce((before, src) => before.then(() => load(src)), Promise.resolve());
      this.inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.ready = load(url);
    }

    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
