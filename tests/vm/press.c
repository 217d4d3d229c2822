/* Sets a control of a video device by its name: how the test in the virtual machine unplugs and breaks its camera.
 *
 *     press /dev/video0 "Disconnect" [VALUE]
 *
 * A button needs no value. The device is closed again at once: vivid stays disconnected until nobody holds it open. */
#include <fcntl.h>
#include <linux/videodev2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int main(int count, char **words)
{
    if (count < 3)
        return fprintf(stderr, "usage: press DEVICE CONTROL [VALUE]\n"), 2;
    int device = open(words[1], O_RDWR | O_NONBLOCK);
    if (device < 0)
        return perror(words[1]), 1;
    struct v4l2_queryctrl query = { .id = V4L2_CTRL_FLAG_NEXT_CTRL };
    while (ioctl(device, VIDIOC_QUERYCTRL, &query) == 0) {
        if (strcmp((const char *)query.name, words[2]) == 0) {
            struct v4l2_control control = { .id = query.id, .value = count > 3 ? atoi(words[3]) : 1 };
            int done = ioctl(device, VIDIOC_S_CTRL, &control);
            if (done != 0)
                perror(words[2]);
            close(device);
            return done != 0;
        }
        if (count == 3 && strcmp(words[2], "list") == 0)
            printf("%s\n", query.name);
        query.id |= V4L2_CTRL_FLAG_NEXT_CTRL;
    }
    close(device);
    fprintf(stderr, "%s has no control \"%s\"\n", words[1], words[2]);
    return 1;
}
