/* Run as a set-user-id program: what of it the kernel permits. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int count, char **words)
{
    if (count != 2)
        return 2;
    printf("chown=%d\n", chown(words[1], 1, 1));
    printf("raw=%d\n", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP) < 0);
    printf("mount=%d\n", unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)
           || mount("none", "/mnt", "tmpfs", 0, NULL));
    return 0;
}
