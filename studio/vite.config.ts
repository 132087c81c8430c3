import { fileURLToPath } from "node:url";

import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const server = process.env.WINDLASS_URL ?? "http://127.0.0.1:8266";

// Addresses of assets are relative: the server sets <base href>, so that the studio works under any path of a proxy.
export default defineConfig({
  base: "./",
  plugins: [react()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  build: {
    outDir: "../src/windlass/server/web/studio",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 600,
  },
  server: { proxy: { "/api": { target: server, changeOrigin: true, headers: { origin: server } } } },
});
