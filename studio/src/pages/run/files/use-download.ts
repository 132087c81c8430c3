import { notifications } from "@mantine/notifications";

import { describe } from "@/components/states";

import { download } from "../queries";

/** Downloads something by the browser; says it if that cannot begin. */
export function useDownload(): (address: string) => void {
  return (address) =>
    void download(address).catch((error: unknown) => {
      const { message, hint } = describe(error);
      notifications.show({ color: "red", title: message, message: hint });
    });
}
