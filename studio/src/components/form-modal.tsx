import { Button, Group, Modal, Stack } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { Failure } from "./states";

type Props = {
  opened: boolean;
  onClose: () => void;
  title: string;
  /** The verb on the button. */
  action: string;
  /** Whether the fields are complete; the button is disabled otherwise. */
  isReady: boolean;
  /** The dialog closes when it is done, unless the result is "stay". */
  submit: () => Promise<unknown>;
  children: ReactNode;
  size?: string;
};

/** A form in a dialog: it stays open with the error if the request fails, and closes when it succeeds. */
export function FormModal({ opened, onClose, title, action, isReady, submit, children, size }: Props) {
  const work = useMutation({ mutationFn: submit, onSuccess: (result) => result !== "stay" && close() });
  function close() {
    work.reset();
    onClose();
  }
  return (
    <Modal opened={opened} onClose={close} title={title} size={size}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (isReady && !work.isPending) work.mutate();
        }}
      >
        <Stack gap="sm">
          {children}
          {work.error && <Failure error={work.error} />}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={close}>
              Back
            </Button>
            <Button type="submit" loading={work.isPending} disabled={!isReady}>
              {action}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
