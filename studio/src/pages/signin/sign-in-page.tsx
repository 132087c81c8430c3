/** Signing in: by the one-time code in the address, or by a token. Says how to get in to this server. */
import { Button, Center, Loader, PasswordInput, Paper, Stack, Text, Title } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { getRouteApi, useRouter } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";

import { basePath } from "@/api/client";
import { queryClient } from "@/api/queries";
import { signIn, signInCommand } from "@/api/session";
import { Code } from "@/components/code";
import { Failure } from "@/components/states";

const route = getRouteApi("/signin");

/** The code in the fragment, which no server and no log sees. It is removed from the address at once. */
function takeCode(): { code: string; next: string } | null {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const code = fragment.get("code");
  if (!code) return null;
  history.replaceState(history.state, "", location.pathname + location.search);
  return { code, next: fragment.get("next") ?? "" };
}

/** A path of this studio; anything else would lead to another site. */
function ownPath(next: string): string {
  const path = next.startsWith(basePath) ? next.slice(basePath.length - 1) : next;
  return /^\/(?![/\\])/.test(path) ? path : "/";
}

export function SignInPage() {
  const { next = "" } = route.useSearch();
  const router = useRouter();
  const [token, setToken] = useState("");
  const { data: way } = useQuery(signInCommand());
  const command = way?.command ?? "windlass studio";
  const tokenCommand = command.replace(/studio$/, "server token");
  const arrived = useRef<ReturnType<typeof takeCode>>(null);
  const enter = useMutation({
    mutationFn: signIn,
    onSuccess: () => {
      queryClient.clear();
      router.history.push(basePath.replace(/\/$/, "") + ownPath(arrived.current?.next || next));
    },
  });
  useEffect(() => {
    arrived.current ??= takeCode();
    if (arrived.current && enter.isIdle) enter.mutate({ code: arrived.current.code });
  }, []); // eslint-disable-line react-hooks/exhaustive-deps
  if (enter.isPending && !token) {
    return (
      <Center h="100vh">
        <Loader aria-label="Signing in" />
      </Center>
    );
  }
  return (
    <Center mih="100vh" p="md" component="main">
      <Paper maw={460} w="100%" p="xl" withBorder>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            enter.mutate({ token: token.trim() });
          }}
        >
          <Stack gap="md">
            <img src="icon.svg" alt="" width={36} height={36} />
            <Title order={1}>Sign in to {location.host}</Title>
            <Text size="sm">
              On the computer where you use <code>windlass</code>, this opens the studio signed in:
            </Text>
            <Code text={command} />
            <Text size="sm">
              Or paste your token. <code>{tokenCommand}</code> prints it; for a shared server, an owner of the workspace
              gives you one.
            </Text>
            {enter.error && <Failure error={enter.error} />}
            <PasswordInput
              label="Token"
              value={token}
              onChange={(event) => setToken(event.currentTarget.value)}
              autoComplete="off"
              withAsterisk={false}
              required
            />
            <Button type="submit" size="sm" loading={enter.isPending} disabled={!token.trim()}>
              Sign in
            </Button>
          </Stack>
        </form>
      </Paper>
    </Center>
  );
}
